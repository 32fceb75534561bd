package view

import (
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// GPUs holds the indexes of the devices by UUID: people name devices by their index.
type GPUs map[string]int

// GPUsOf returns the devices of a status.
func GPUsOf(all api.StatusAll) GPUs {
	gpus := GPUs{}
	for _, d := range all.GPUs {
		gpus[d.Device.UUID] = d.Device.Index
	}
	return gpus
}

// short returns the index of a device, or the UUID if the device is gone.
func (x GPUs) short(uuid string) string {
	if index, known := x[uuid]; known {
		return strconv.Itoa(index)
	}
	return term.Clean(uuid)
}

// Name returns the name of a device in a sentence: "GPU 0", or the UUID if the device
// is gone.
func (x GPUs) Name(uuid string) string {
	if _, known := x[uuid]; known {
		return "GPU " + x.short(uuid)
	}
	return x.short(uuid)
}

// cell returns the index for a table, because a UUID would take half of the width.
func (x GPUs) cell(uuid string) term.Cell {
	if _, known := x[uuid]; !known {
		return term.Painted("gone", term.Red)
	}
	return term.Text(x.short(uuid))
}
