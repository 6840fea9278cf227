// A libnvJitLink.so.13 with nothing in it. Preloaded beside the virtual driver it makes cuda-core find no nvJitLink
// function, so that it links through cuLink*, which keeps the PTX that the virtual GPU runs; the real library would
// make a cubin of it.
extern const int vgpu_has_no_nvjitlink;
const int vgpu_has_no_nvjitlink = 1;
