package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/internal/device"
)

// failure returns an NVML error in berth's words. It does not use Return.Error, which
// calls into a library that may be gone.
func failure(op string, ret nvml.Return) *device.Error {
	e := &device.Error{Op: op}
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_FUNCTION_NOT_FOUND:
		e.Err = device.ErrNoLibrary
		e.Hint = "install the NVIDIA driver; in a container, start it with the NVIDIA runtime, for example with --gpus all"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		e.Err = device.ErrNoDriver
		e.Hint = "load it with modprobe nvidia, and if that fails look in dmesg; in a container, pass the GPUs in"
	case nvml.ERROR_NO_PERMISSION:
		e.Err = device.ErrNoPermission
		e.Hint = "let this user open the files /dev/nvidia*, often through the group video, or run berth as root"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		e.Err = device.ErrMismatch
		e.Hint = "the driver was updated: reboot, or reload the nvidia kernel modules, then start berth again"
	case nvml.ERROR_RESET_REQUIRED:
		e.Err = device.ErrLost
		e.Hint = "stop the work on it and reset it with nvidia-smi --gpu-reset, or reboot"
	case nvml.ERROR_NOT_SUPPORTED:
		e.Err = device.ErrUnsupported
	default:
		if gone(ret) {
			e.Err = device.ErrLost
			e.Hint = "look in dmesg for an XID; a GPU that fell off the bus usually needs a reboot"
			break
		}
		e.Err = fmt.Errorf("NVML error %d", int(ret))
		if ret == nvml.ERROR_UNKNOWN {
			e.Err = fmt.Errorf("NVML error %d, unknown to the driver itself", int(ret))
		}
		e.Hint = "look in dmesg for messages of the nvidia driver"
	}
	return e
}

// gone reports whether a code means that the whole device, and not just one metric,
// cannot be used.
func gone(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_UNINITIALIZED:
		return true
	}
	return false
}

// unsupported reports whether a code means that the device never has a metric.
func unsupported(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_FUNCTION_NOT_FOUND,
		nvml.ERROR_VGPU_ECC_NOT_SUPPORTED, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return true
	}
	return false
}
