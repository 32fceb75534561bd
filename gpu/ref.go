package gpu

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Ref names a device by UUID or by index; empty names none. In JSON, an index
// may be a number: 0 means the same as "0".
type Ref string

// MaxLength returns how many characters a Ref may have.
func (Ref) MaxLength() int { return 128 }

// UnmarshalJSON reads text, or the number of an index.
func (r *Ref) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*r = Ref(text)
		return nil
	}
	index, err := strconv.ParseUint(string(b), 10, 31)
	if err != nil {
		return errors.New("a device is named by its index, such as 0, or by its UUID in quotes")
	}
	*r = Ref(strconv.FormatUint(index, 10))
	return nil
}
