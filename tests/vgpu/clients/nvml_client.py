"""NVIDIA's own bindings of NVML (cuda.bindings.nvml) on the stand-in for it, and our declarations against theirs."""

import ctypes
import os
import re
import tempfile
from pathlib import Path

import numpy as np
from cuda.bindings import nvml

ROOT = Path(__file__).resolve().parents[3]
# Ours -> theirs
REASONS = {
    "idle": "EVENT_REASON_GPU_IDLE",
    "application_clocks": "EVENT_REASON_APPLICATIONS_CLOCKS_SETTING",
    "software_power_cap": "EVENT_REASON_SW_POWER_CAP",
    "hardware_slowdown": "THROTTLE_REASON_HW_SLOWDOWN",
    "sync_boost": "EVENT_REASON_SYNC_BOOST",
    "software_thermal": "EVENT_REASON_SW_THERMAL_SLOWDOWN",
    "hardware_thermal": "THROTTLE_REASON_HW_THERMAL_SLOWDOWN",
    "power_brake": "THROTTLE_REASON_HW_POWER_BRAKE_SLOWDOWN",
    "display_clocks": "EVENT_REASON_DISPLAY_CLOCK_SETTING",
    "board_limit": "EVENT_REASON_BOARD_LIMIT",
    "reliability": "EVENT_REASON_RELIABILITY",
}
CODES = {
    "success": "SUCCESS",
    "uninitialized": "ERROR_UNINITIALIZED",
    "not_supported": "ERROR_NOT_SUPPORTED",
    "no_permission": "ERROR_NO_PERMISSION",
    "not_found": "ERROR_NOT_FOUND",
    "insufficient_size": "ERROR_INSUFFICIENT_SIZE",
    "driver_not_loaded": "ERROR_DRIVER_NOT_LOADED",
    "function_not_found": "ERROR_FUNCTION_NOT_FOUND",
    "gpu_is_lost": "ERROR_GPU_IS_LOST",
    "reset_required": "ERROR_RESET_REQUIRED",
    "version_mismatch": "ERROR_LIB_RM_VERSION_MISMATCH",
}


def check_declarations() -> None:
    header = (ROOT / "src/runtime/nvml_abi.hpp").read_text()
    ours = dict(re.findall(r"inline constexpr std::uint64_t reason_(\w+) = (0x[0-9a-f]+);", header))
    assert ours.keys() == REASONS.keys(), ours
    for name, value in ours.items():
        assert int(value, 16) == getattr(nvml.ClocksEventReasons, REASONS[name]), name
    codes = dict(re.findall(r"inline constexpr Code (\w+) = (\d+);", header))
    assert codes.keys() == CODES.keys(), codes
    for name, value in codes.items():
        assert int(value) == getattr(nvml.Return, CODES[name]), name
    assert nvml.ClockType.CLOCK_SM == 1 and nvml.ClockType.CLOCK_MEM == 2
    assert nvml.TemperatureSensors.TEMPERATURE_GPU == 0
    # The structs, by size and place; what lies in them is compared through the calls below.
    assert nvml.memory_dtype.itemsize == 24 and nvml.memory_dtype.fields["used"][1] == 16
    assert nvml.utilization_dtype.itemsize == 8
    assert nvml.process_info_dtype.itemsize == 24
    assert nvml.process_info_dtype.fields["used_gpu_memory"][1] == 8


def main() -> None:
    check_declarations()
    with tempfile.NamedTemporaryFile("w", suffix=".nvml") as file:
        os.environ["VGPU_NVML"] = f"@{file.name}"
        file.write("other_process=4242:1024;throttle=power;ecc=on\n")
        file.flush()
        nvml.init_v2()
        assert nvml.system_get_driver_version() == "580.65.06 (virtual)"
        card = nvml.device_get_handle_by_pci_bus_id_v2("0000:01:00.0")
        assert nvml.device_get_name(card) == "NVIDIA L4 (virtual)"
        assert nvml.device_get_uuid(card).startswith("GPU-76677075-2d6c-3400-"), nvml.device_get_uuid(card)
        assert nvml.device_get_max_clock_info(card, nvml.ClockType.CLOCK_SM) == 2040
        assert nvml.device_get_clock_info(card, nvml.ClockType.CLOCK_MEM) == 6251
        assert nvml.device_get_current_clocks_event_reasons(card) == nvml.ClocksEventReasons.EVENT_REASON_SW_POWER_CAP
        assert nvml.device_get_power_usage(card) == 36000
        assert nvml.device_get_enforced_power_limit(card) == 72000
        # The bindings call the _v2 of it, which older drivers lack; theirs is the layout.
        memory = np.zeros(1, nvml.memory_dtype)
        library = ctypes.CDLL("libnvidia-ml.so.1")
        assert library.nvmlDeviceGetMemoryInfo(ctypes.c_void_p(card), ctypes.c_void_p(memory.ctypes.data)) == 0
        assert [int(memory[field][0]) for field in ("total", "used", "free")] == [24 << 30, 1 << 30, 23 << 30]
        processes = {p.pid: p.used_gpu_memory for p in nvml.device_get_compute_running_processes_v3(card)}
        assert processes == {os.getpid(): 0, 4242: 1 << 30}, processes
        assert nvml.device_get_utilization_rates(card).gpu == 0
        assert [int(mode) for mode in nvml.device_get_ecc_mode(card)] == [1, 1]
        assert int(nvml.device_get_persistence_mode(card)) == 1
        try:
            nvml.device_get_mig_mode(card)
            raise AssertionError("MIG of a card that has none")
        except nvml.NotSupportedError:
            pass
        nvml.shutdown()
    print("nvml: ok")


main()
