// Package cuda calls NVIDIA's driver library, which it loads at run time.
//
// A fault of the driver can end the process, and a call that hangs cannot be
// cancelled: only a process that nobody depends on may use this package.
//
// The driver keeps its context per thread. The goroutine that opens a device must be
// locked to its thread, and must make all calls.
package cuda

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"
)

// Library is the name of the driver library.
const Library = "libcuda.so.1"

// Device is an open device.
type Device struct {
	ordinal C.int
}

// Address is a place in the memory of a device.
type Address uint64

// Function is a program for the device.
type Function struct{ handle unsafe.Pointer }

// ErrNoLibrary means that there is no driver library to load.
var ErrNoLibrary = errors.New("the driver library cannot be loaded")

// Load loads the driver library and starts it.
func Load(library string) error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	if why := C.berth_cuda_load(name, C.berth_cuda_device); why != nil {
		return fmt.Errorf("%w: %s", ErrNoLibrary, C.GoString(why))
	}
	return failure("cuInit", C.berth_cuInit(0))
}

// waitBlocked makes the driver sleep while it waits for the device.
const waitBlocked = 4

// Open opens the first device that the process may see.
func Open() (*Device, error) {
	d := &Device{}
	if err := failure("cuDeviceGet", C.berth_cuDeviceGet(&d.ordinal, 0)); err != nil {
		return nil, err
	}
	var context unsafe.Pointer
	return d, failure("cuCtxCreate", C.berth_cuCtxCreate(&context, waitBlocked, d.ordinal))
}

// Units returns the number of multiprocessors of the device.
func (d *Device) Units() (int, error) {
	const multiprocessors = 16
	var n C.int
	err := failure("cuDeviceGetAttribute", C.berth_cuDeviceGetAttribute(&n, multiprocessors, d.ordinal))
	return int(n), err
}

// Free returns how much memory of the device is free, in bytes.
func (d *Device) Free() (uint64, error) {
	var free, total C.size_t
	err := failure("cuMemGetInfo", C.berth_cuMemGetInfo(&free, &total))
	return uint64(free), err
}

// Take takes memory of the device.
func (d *Device) Take(bytes uint64) (Address, error) {
	var at C.uint64_t
	err := failure("cuMemAlloc", C.berth_cuMemAlloc(&at, C.size_t(bytes)))
	return Address(at), err
}

// Give frees memory from Take.
func (d *Device) Give(at Address) error {
	return failure("cuMemFree", C.berth_cuMemFree(C.uint64_t(at)))
}

// HostMemory returns memory of the machine that the device accesses by itself. It stays
// until the process ends.
func (d *Device) HostMemory(words int) ([]uint32, error) {
	var memory unsafe.Pointer
	err := failure("cuMemHostAlloc", C.berth_cuMemHostAlloc(&memory, C.size_t(words)*4, 0))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint32)(memory), words), nil
}

// CopyIn copies words to the device.
func (d *Device) CopyIn(to Address, from []uint32) error {
	if len(from) == 0 {
		return nil
	}
	return failure("cuMemcpyHtoD", C.berth_cuMemcpyHtoD(C.uint64_t(to), unsafe.Pointer(&from[0]), C.size_t(len(from))*4))
}

// CopyOut copies words from the device.
func (d *Device) CopyOut(to []uint32, from Address) error {
	if len(to) == 0 {
		return nil
	}
	return failure("cuMemcpyDtoH", C.berth_cuMemcpyDtoH(unsafe.Pointer(&to[0]), C.uint64_t(from), C.size_t(len(to))*4))
}

// Compile compiles PTX and returns the functions with these names.
func (d *Device) Compile(ptx string, names ...string) ([]Function, error) {
	text := C.CString(ptx)
	defer C.free(unsafe.Pointer(text))
	var module unsafe.Pointer
	log := make([]byte, 1024)
	if err := failure("cuModuleLoadDataEx", C.berth_cuda_module(&module, text, (*C.char)(unsafe.Pointer(&log[0])), C.size_t(len(log)))); err != nil {
		said, _, _ := bytes.Cut(log, []byte{0})
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said))
	}
	var list []Function
	for _, name := range names {
		var f Function
		text := C.CString(name)
		err := failure("cuModuleGetFunction", C.berth_cuModuleGetFunction(&f.handle, module, text))
		C.free(unsafe.Pointer(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, name)
		}
		list = append(list, f)
	}
	return list, nil
}

// Start starts a function on the device. Its arguments are all 64 bits wide.
func (d *Device) Start(f Function, blocks, threads int, arguments ...uint64) error {
	var list *C.uint64_t
	if len(arguments) > 0 {
		list = (*C.uint64_t)(unsafe.Pointer(&arguments[0]))
	}
	return failure("cuLaunchKernel", C.berth_cuda_launch(f.handle, C.uint(blocks), C.uint(threads), list, C.int(len(arguments))))
}

// Wait waits until the device has done everything.
func (d *Device) Wait() error {
	return failure("cuCtxSynchronize", C.berth_cuCtxSynchronize())
}
