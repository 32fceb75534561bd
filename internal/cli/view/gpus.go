package view

import (
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// GPUs holds the indexes of the devices by UUID: people call devices by their
// index.
type GPUs map[string]int

// GPUsOf returns the devices of a status.
func GPUsOf(all api.StatusAll) GPUs {
	gpus := GPUs{}
	for _, d := range all.GPUs {
		gpus[d.Device.UUID] = d.Device.Index
	}
	return gpus
}

// short returns the index, or the UUID of a device that is not there any more.
func (x GPUs) short(uuid string) string {
	if index, known := x[uuid]; known {
		return strconv.Itoa(index)
	}
	return term.Clean(uuid)
}

// Name returns what a device is called in a sentence: "GPU 0", or the UUID of a
// device that is not there any more.
func (x GPUs) Name(uuid string) string {
	if _, known := x[uuid]; known {
		return "GPU " + x.short(uuid)
	}
	return x.short(uuid)
}

// cell returns the index for a table, where a UUID would take half of it.
func (x GPUs) cell(uuid string) term.Cell {
	if _, known := x[uuid]; !known {
		return term.Painted("gone", term.Red)
	}
	return term.Text(x.short(uuid))
}
