package main

import (
	"fmt"
	"os/exec"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// singleCalls measures each call of NVML by itself.
func singleCalls(uuid string, w stopwatch) ([]cost, error) {
	lib := nvml.New()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fmt.Errorf("initialise NVML: error %d", int(ret))
	}
	defer lib.Shutdown()
	h, ret := lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("find %s: NVML error %d", uuid, int(ret))
	}
	var costs []cost
	for _, c := range nvmlCalls(lib, h) {
		costs = append(costs, w.time(c.name, func() string {
			switch ret := c.call(); ret {
			case nvml.SUCCESS:
				return ""
			case nvml.ERROR_NOT_SUPPORTED:
				return "not supported"
			default:
				return fmt.Sprintf("NVML error %d", int(ret))
			}
		}))
	}
	return costs, nil
}

type nvmlCall struct {
	name string
	call func() nvml.Return
}

// nvmlCalls returns the calls of the fast reading, then those of the slow one.
func nvmlCalls(lib nvml.Interface, h nvml.Device) []nvmlCall {
	// A call of a function that an old driver does not have ends the process.
	mps := lib.Extensions().LookupSymbol("nvmlDeviceGetMPSComputeRunningProcesses_v3") == nil
	memoryTemperature := func() nvml.Return {
		values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_MEMORY_TEMP}}
		if ret := h.GetFieldValues(values); ret != nvml.SUCCESS {
			return ret
		}
		return nvml.Return(values[0].NvmlReturn)
	}
	return []nvmlCall{
		{"memory", func() nvml.Return { _, ret := h.GetMemoryInfo(); return ret }},
		{"utilisation", func() nvml.Return { _, ret := h.GetUtilizationRates(); return ret }},
		{"temperature", func() nvml.Return { _, ret := h.GetTemperature(nvml.TEMPERATURE_GPU); return ret }},
		{"memory temperature (field)", memoryTemperature},
		{"power", func() nvml.Return { _, ret := h.GetPowerUsage(); return ret }},
		{"clock, processors", func() nvml.Return { _, ret := h.GetClockInfo(nvml.CLOCK_SM); return ret }},
		{"clock, memory", func() nvml.Return { _, ret := h.GetClockInfo(nvml.CLOCK_MEM); return ret }},
		{"throttle reasons", func() nvml.Return { _, ret := h.GetCurrentClocksThrottleReasons(); return ret }},
		{"processes, compute", func() nvml.Return { _, ret := h.GetComputeRunningProcesses(); return ret }},
		{"processes, MPS", func() nvml.Return {
			if !mps {
				return nvml.ERROR_NOT_SUPPORTED
			}
			_, ret := h.GetMPSComputeRunningProcesses()
			return ret
		}},
		{"processes, graphics", func() nvml.Return { _, ret := h.GetGraphicsRunningProcesses(); return ret }},
		{"energy", func() nvml.Return { _, ret := h.GetTotalEnergyConsumption(); return ret }},
		{"fan", func() nvml.Return { _, ret := h.GetFanSpeed(); return ret }},
		{"PCIe sent", func() nvml.Return { _, ret := h.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES); return ret }},
		{"PCIe received", func() nvml.Return { _, ret := h.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES); return ret }},
		{"ECC, corrected", func() nvml.Return {
			_, ret := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)
			return ret
		}},
		{"ECC, uncorrected", func() nvml.Return {
			_, ret := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
			return ret
		}},
		{"process utilisation", func() nvml.Return { _, ret := h.GetProcessUtilization(0); return ret }},
	}
}

// smiFields names the values of a fast reading as nvidia-smi does.
const smiFields = "utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,temperature.gpu," +
	"temperature.memory,power.draw,clocks.sm,clocks.mem,clocks_throttle_reasons.active"

// spawned measures nvidia-smi as programs use it. The first cost is the query
// that a fast reading is compared with. Without nvidia-smi, there are no costs.
func spawned(uuid string, w stopwatch) []cost {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil
	}
	start := func(args ...string) func() string {
		return func() string {
			if err := exec.Command(path, args...).Run(); err != nil {
				return err.Error()
			}
			return ""
		}
	}
	return []cost{
		w.time("nvidia-smi --query-gpu", start("--id="+uuid, "--query-gpu="+smiFields, "--format=csv,noheader")),
		w.time("nvidia-smi --query-compute-apps", start("--id="+uuid, "--query-compute-apps=pid,used_memory", "--format=csv,noheader")),
		w.time("nvidia-smi", start()),
	}
}
