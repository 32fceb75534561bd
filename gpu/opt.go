package gpu

import (
	"bytes"
	"encoding/json"
)

// Opt is a value that may be absent. A device that cannot measure its fan has
// no fan speed: that is neither a fan at zero nor a broken device, and a plain
// number could not tell the three apart. Tag fields with omitzero.
type Opt[T any] struct {
	value T
	known bool
}

// Some returns an Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, known: true} }

// Get returns the value and whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.value, o.known }

// Known reports whether there is a value.
func (o Opt[T]) Known() bool { return o.known }

// Or returns the value, or instead when there is none.
func (o Opt[T]) Or(instead T) T {
	if o.known {
		return o.value
	}
	return instead
}

// IsZero makes omitzero leave absent values out of JSON.
func (o Opt[T]) IsZero() bool { return !o.known }

// MarshalJSON writes the bare value, or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.known {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads the bare value; null is absent.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		*o = Opt[T]{}
		return nil
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}
