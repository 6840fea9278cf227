#include "predict/kinds.hpp"

#include <array>
#include <string>
#include <unordered_map>

namespace flashmoe::predict {
namespace {

struct Row {
  Kind kind;
  std::string_view opcodes;  // separated by blanks
};

// Opcodes without their modifiers. Which pipe executes what: Nsight Compute's documentation ("Pipelines"); opcodes:
// "CUDA Binary Utilities", instruction set reference. That conversions F2FP, I2FP, F2IP and I2I are the ALU's follows
// from their fixed latency (tests/vgpu/conversion_pipes_test.py).
constexpr std::array rows{
    Row{Kind::control,
        "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT NOP BSSY BSYNC BREAK WARPSYNC YIELD BMOV BPT KILL RPCMOV ERRBAR "
        "CGAERRBAR CCTL CCTLL CCTLT CCTLS PREEXIT ACQBULK ENDCOLLECTIVE COLLECTIVE NANOSLEEP PMTRIG"},
    Row{Kind::tensor, "HMMA IMMA QMMA OMMA"},
    Row{Kind::fma, "FFMA FMUL FADD FFMA32I FMUL32I FADD32I FSWZADD FFMA2 FMUL2 FADD2"},
    Row{Kind::fma_heavy, "IMAD IMUL IMUL32I IDP IDP4A IMADSP"},
    Row{Kind::fp16, "HFMA2 HADD2 HMUL2 HFMA2_32I HADD2_32I HMUL2_32I"},
    Row{Kind::fp64, "DADD DFMA DMUL DSETP DMNMX"},
    Row{Kind::add, "IADD3 IADD IADD32I VIADD IADD64"},
    Row{Kind::alu,
        "MOV MOV32I LOP3 LOP LOP32I ISETP FSETP FSET FSEL SEL LEA SHF SHL SHR PRMT IABS IMNMX IMNMX3 VIMNMX VIMNMX3 "
        "VIADDMNMX VABSDIFF VABSDIFF4 FMNMX FMNMX3 HMNMX2 VHMNMX HSETP2 HSET2 PLOP3 PSETP BMSK SGXT P2R R2P FCHK VOTE "
        "VOTEU F2FP I2FP F2IP I2I I2IP CS2R ISCADD LEPC"},
    Row{Kind::conversion, "F2I F2F I2F FRND POPC FLO BREV"},
    Row{Kind::transcendental, "MUFU"},
    Row{Kind::uniform,
        "UIADD3 UIADD UIADD64 UVIADD ULOP3 ULOP UIMAD USHF USHL USHR UMOV ULEA UISETP UISCADD USEL UPRMT UBMSK UBREV "
        "USGXT UPLOP3 UPSETP UP2UR UR2UP UIABS UFLO UPOPC UIMNMX UVIMNMX UIMNMX3 UVIMNMX3 UCLEA ULDC ULEPC UFADD UFMUL "
        "UFFMA UFSETP UFSET UFSEL UFMNMX UF2FP UI2FP UF2I UI2F UF2F UFRND UF2IP UI2I UI2IP UGETNEXTWORKID"},
    // MEMBAR waits for the stores before it: that is not modelled.
    Row{Kind::special, "S2R S2UR R2UR B2R R2B MATCH REDUX CREDUX ELECT QSPC GETLMEMBASE MEMBAR FENCE PIXLD AL2P"},
    Row{Kind::constant, "LDC LDCU"},
    Row{Kind::shared, "LDS STS LDSM STSM ATOMS REDS"},
    Row{Kind::shuffle, "SHFL MOVM"},
    Row{Kind::global, "LDG STG LD ST ATOM ATOMG RED REDG"},
    Row{Kind::local, "LDL STL"},
    Row{Kind::async_copy, "LDGSTS"},
    Row{Kind::async_commit, "LDGDEPBAR"},
    Row{Kind::wait_counters, "DEPBAR"},
    Row{Kind::barrier, "BAR"},
    Row{Kind::unsupported,
        "HGMMA IGMMA QGMMA BGMMA WARPGROUP WARPGROUPSET USETMAXREG SYNCS SYNCSU ARRIVES UTMALDG UTMASTG UTMAREDG "
        "UTMAPF UTMACCTL UTMACMDFLUSH UTMALST UBLKCP UBLKPF UBLKRED UCGABAR_ARV UCGABAR_WAIT UCGABAR_GET UCGABAR_SET "
        "UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA UTCBAR UTCCP UTCATOMSWS UTCSHIFT LDTM STTM STAS BMMA DMMA"},
};

const std::unordered_map<std::string_view, Kind>& kinds_by_opcode() {
  static const auto table = [] {
    std::unordered_map<std::string_view, Kind> made;
    for (const Row& row : rows)
      for (std::size_t begin = 0; begin < row.opcodes.size();) {
        const std::size_t end = std::min(row.opcodes.find(' ', begin), row.opcodes.size());
        made.emplace(row.opcodes.substr(begin, end - begin), row.kind);
        begin = end + 1;
      }
    return made;
  }();
  return table;
}

}  // namespace

std::string_view name_of(Pipe pipe) {
  static constexpr std::array<std::string_view, pipes> names{
      "tensor", "fma", "fma heavy", "fp64", "alu", "xu", "uniform", "memory queue", "shared memory and L1", "L2"};
  return names[static_cast<std::size_t>(pipe)];
}

std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, kinds> names{
      "control",    "tensor",         "fma",          "fma heavy", "fp16",     "fp64",        "alu",     "add",
      "conversion", "transcendental", "uniform",      "special",   "constant", "shared",      "shuffle", "global",
      "local",      "async copy",     "async commit", "wait",      "barrier",  "unsupported", "unknown"};
  return names[static_cast<std::size_t>(kind)];
}

Kind kind_of(const SassInstruction& instruction) {
  if (instruction.guard == "@!PT" || instruction.guard == "@!UPT") return Kind::control;
  const auto found = kinds_by_opcode().find(instruction.base());
  return found == kinds_by_opcode().end() ? Kind::unknown : found->second;
}

double tensor_size(const SassInstruction& instruction) {
  // "16816" is m16n8k16; m is 16 or 8, n always 8, and the rest is k.
  for (std::size_t dot = instruction.opcode.find('.'); dot != std::string::npos;) {
    const std::size_t end = std::min(instruction.opcode.find('.', dot + 1), instruction.opcode.size());
    std::string_view shape = std::string_view(instruction.opcode).substr(dot + 1, end - dot - 1);
    if (!shape.empty() && shape.size() <= 5 && shape.find_first_not_of("0123456789") == std::string_view::npos) {
      const double m = shape.starts_with("16") ? 16 : 8;
      shape.remove_prefix(m == 16 ? 2 : 1);
      if (!shape.starts_with('8') || shape.size() < 2) return 0;
      return m * 8 * std::stod(std::string(shape.substr(1))) / (16 * 8 * 16);
    }
    dot = end == instruction.opcode.size() ? std::string::npos : end;
  }
  return 0;
}

}  // namespace flashmoe::predict
