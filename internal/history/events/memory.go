package events

import (
	"reflect"

	"github.com/berth-gpu/berth/gpu"
)

// Estimates of the memory that an event takes besides its texts.
const (
	eventSize = 320 // the event itself and the pointers to it
	dataSize  = 320 // a map of up to eight keys
	valueSize = 16  // a value that is not a text
)

// memoryOf estimates how many bytes of memory an event takes.
func memoryOf(e *gpu.Event) int {
	size := eventSize + len(e.GPU) + len(e.Lease) + len(e.User) + len(e.Text) + len(e.Public)
	if e.Data != nil {
		size += sizeOf(e.Data)
	}
	return size
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case int, int64, uint64, bool, float64, nil:
		return valueSize
	case string:
		return valueSize + len(v)
	case map[string]any:
		size := dataSize * (1 + len(v)/8)
		for key, value := range v {
			size += len(key) + sizeOf(value)
		}
		return size
	case []string:
		size := valueSize
		for _, element := range v {
			size += valueSize + len(element)
		}
		return size
	case []any:
		size := valueSize
		for _, element := range v {
			size += valueSize + sizeOf(element)
		}
		return size
	}
	if value := reflect.ValueOf(v); value.Kind() == reflect.String {
		return valueSize + value.Len()
	}
	return 2 * valueSize // a trimmed event holds nothing larger
}
