// Streams, events, capture and graphs.
#include "vgpu/cudart/calls.hpp"

VGPU_FORWARD(cudaStreamCreate, (CUstream * stream), cuStreamCreate(stream, 0))
VGPU_FORWARD(cudaStreamCreateWithFlags, (CUstream * stream, unsigned flags), cuStreamCreate(stream, flags))
VGPU_FORWARD(cudaStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority),
             cuStreamCreateWithPriority(stream, flags, priority))
VGPU_FORWARD(cudaStreamDestroy, (CUstream stream), cuStreamDestroy_v2(stream))
VGPU_FORWARD(cudaStreamSynchronize, (CUstream stream), cuStreamSynchronize(stream))
VGPU_RUNTIME_ALIAS(cudaStreamSynchronize, cudaStreamSynchronize_ptsz);
VGPU_FORWARD(cudaStreamQuery, (CUstream stream), cuStreamQuery(stream))
VGPU_RUNTIME_ALIAS(cudaStreamQuery, cudaStreamQuery_ptsz);
VGPU_FORWARD(cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
             cuStreamWaitEvent(stream, event, flags))
VGPU_RUNTIME_ALIAS(cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz);
VGPU_FORWARD(cudaStreamAddCallback, (CUstream stream, CUstreamCallback callback, void* user, unsigned flags),
             cuStreamAddCallback(stream, callback, user, flags))
VGPU_RUNTIME_ALIAS(cudaStreamAddCallback, cudaStreamAddCallback_ptsz);
VGPU_FORWARD(cudaStreamGetPriority, (CUstream stream, int* priority), cuStreamGetPriority(stream, priority))
VGPU_RUNTIME_ALIAS(cudaStreamGetPriority, cudaStreamGetPriority_ptsz);
VGPU_FORWARD(cudaStreamGetFlags, (CUstream stream, unsigned* flags), cuStreamGetFlags(stream, flags))
VGPU_RUNTIME_ALIAS(cudaStreamGetFlags, cudaStreamGetFlags_ptsz);
VGPU_FORWARD(cudaStreamGetId, (CUstream stream, unsigned long long* id), cuStreamGetId(stream, id))
VGPU_RUNTIME_ALIAS(cudaStreamGetId, cudaStreamGetId_ptsz);
VGPU_FORWARD(cudaStreamGetDevice, (CUstream stream, int* device), cuStreamGetDevice(stream, device))
VGPU_RUNTIME_ALIAS(cudaStreamGetDevice, cudaStreamGetDevice_ptsz);
VGPU_FORWARD(cudaStreamAttachMemAsync, (CUstream stream, void* address, std::size_t bytes, unsigned flags),
             cuStreamAttachMemAsync(stream, flashmoe::vgpu::cudart::address_of(address), bytes, flags))
VGPU_RUNTIME_ALIAS(cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz);

VGPU_FORWARD(cudaStreamBeginCapture, (CUstream stream, int mode), cuStreamBeginCapture_v2(stream, mode))
VGPU_RUNTIME_ALIAS(cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz);
VGPU_FORWARD(cudaStreamEndCapture, (CUstream stream, CUgraph* graph), cuStreamEndCapture(stream, graph))
VGPU_RUNTIME_ALIAS(cudaStreamEndCapture, cudaStreamEndCapture_ptsz);
VGPU_FORWARD(cudaStreamIsCapturing, (CUstream stream, int* status), cuStreamIsCapturing(stream, status))
VGPU_RUNTIME_ALIAS(cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz);
VGPU_FORWARD(cudaStreamGetCaptureInfo,
             (CUstream stream, int* status, std::uint64_t* id, CUgraph* graph, const void** dependencies,
              const void** edges, std::size_t* count),
             cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count))
VGPU_RUNTIME_ALIAS(cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz);
VGPU_FORWARD(cudaThreadExchangeStreamCaptureMode, (int* mode), cuThreadExchangeStreamCaptureMode(mode))
VGPU_FORWARD(cudaGraphInstantiate, (CUgraphExec * executable, CUgraph graph, std::uint64_t flags),
             cuGraphInstantiateWithFlags(executable, graph, flags))
VGPU_FORWARD(cudaGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, std::uint64_t flags),
             cuGraphInstantiateWithFlags(executable, graph, flags))
VGPU_FORWARD(cudaGraphInstantiateWithParams,
             (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* asked),
             cuGraphInstantiateWithParams(executable, graph, asked))
VGPU_RUNTIME_ALIAS(cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz);
VGPU_FORWARD(cudaGraphLaunch, (CUgraphExec executable, CUstream stream), cuGraphLaunch(executable, stream))
VGPU_RUNTIME_ALIAS(cudaGraphLaunch, cudaGraphLaunch_ptsz);
VGPU_FORWARD(cudaGraphUpload, (CUgraphExec executable, CUstream stream), cuGraphUpload(executable, stream))
VGPU_RUNTIME_ALIAS(cudaGraphUpload, cudaGraphUpload_ptsz);
VGPU_FORWARD(cudaGraphDestroy, (CUgraph graph), cuGraphDestroy(graph))
VGPU_FORWARD(cudaGraphExecDestroy, (CUgraphExec executable), cuGraphExecDestroy(executable))
VGPU_FORWARD(cudaUserObjectCreate,
             (CUuserObject * object, void* value, CUhostFn destroy, unsigned references, unsigned flags),
             cuUserObjectCreate(object, value, destroy, references, flags))
VGPU_FORWARD(cudaUserObjectRetain, (CUuserObject object, unsigned count), cuUserObjectRetain(object, count))
VGPU_FORWARD(cudaUserObjectRelease, (CUuserObject object, unsigned count), cuUserObjectRelease(object, count))
VGPU_FORWARD(cudaGraphRetainUserObject, (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
             cuGraphRetainUserObject(graph, object, count, flags))
VGPU_FORWARD(cudaGraphReleaseUserObject, (CUgraph graph, CUuserObject object, unsigned count),
             cuGraphReleaseUserObject(graph, object, count))
VGPU_FORWARD(cudaGraphGetNodes, (CUgraph graph, void** nodes, std::size_t* count), cuGraphGetNodes(graph, nodes, count))

VGPU_FORWARD(cudaEventCreate, (CUevent * event), cuEventCreate(event, 0))
VGPU_FORWARD(cudaEventCreateWithFlags, (CUevent * event, unsigned flags), cuEventCreate(event, flags))
VGPU_FORWARD(cudaEventDestroy, (CUevent event), cuEventDestroy_v2(event))
VGPU_FORWARD(cudaEventRecord, (CUevent event, CUstream stream), cuEventRecord(event, stream))
VGPU_RUNTIME_ALIAS(cudaEventRecord, cudaEventRecord_ptsz);
VGPU_FORWARD(cudaEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
             cuEventRecordWithFlags(event, stream, flags))
VGPU_RUNTIME_ALIAS(cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz);
VGPU_FORWARD(cudaEventSynchronize, (CUevent event), cuEventSynchronize(event))
VGPU_FORWARD(cudaEventQuery, (CUevent event), cuEventQuery(event))
VGPU_FORWARD(cudaEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end),
             cuEventElapsedTime_v2(milliseconds, begin, end))
