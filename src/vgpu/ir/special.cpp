#include "vgpu/ir/special.hpp"

#include <charconv>

namespace flashmoe::vgpu::ir {
namespace {

struct Named {
  std::string_view name;
  Special which;
  int bits = 32;
};

constexpr Named names[] = {
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%smid", Special::smid},
    {"%nsmid", Special::nsmid},
    {"%gridid", Special::gridid, 64},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%clock", Special::clock},
    {"%clock_hi", Special::clock_hi},
    {"%clock64", Special::clock64, 64},
    {"%globaltimer", Special::globaltimer, 64},
    {"%globaltimer_lo", Special::globaltimer_lo},
    {"%globaltimer_hi", Special::globaltimer_hi},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    {"%total_smem_size", Special::total_smem_size},
    {"%aggr_smem_size", Special::total_smem_size},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z},
    {"%clusterid.x", Special::clusterid_x},
    {"%clusterid.y", Special::clusterid_y},
    {"%clusterid.z", Special::clusterid_z},
    {"%nclusterid.x", Special::nclusterid_x},
    {"%nclusterid.y", Special::nclusterid_y},
    {"%nclusterid.z", Special::nclusterid_z},
    {"%cluster_ctarank", Special::cluster_ctarank},
    {"%cluster_nctarank", Special::cluster_nctarank},
    {"%is_explicit_cluster", Special::is_explicit_cluster, 1},
    {"%reserved_smem_offset_begin", Special::reserved_smem_offset},
    {"%reserved_smem_offset_end", Special::reserved_smem_offset},
    {"%reserved_smem_offset_cap", Special::reserved_smem_offset},
    {"%reserved_smem_offset_0", Special::reserved_smem_offset},
    {"%reserved_smem_offset_1", Special::reserved_smem_offset},
};

constexpr std::string_view kEnvironment = "%envreg";

}  // namespace

std::optional<SpecialRegister> special_register(std::string_view name) {
  for (const Named& named : names)
    if (named.name == name) return SpecialRegister{named.which, named.bits, 0};
  if (!name.starts_with(kEnvironment)) return std::nullopt;
  const std::string_view digits = name.substr(kEnvironment.size());
  SpecialRegister found{Special::envreg, 32, 0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found.number);
  if (error != std::errc{} || end != digits.data() + digits.size() || found.number < 0 || found.number > 31)
    return std::nullopt;
  return found;
}

}  // namespace flashmoe::vgpu::ir
