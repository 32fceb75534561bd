package fleet

import (
	"reflect"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/words"
)

// longest limits the characters in a text of a machine. The longest texts of a daemon,
// which say why a device is not well, have some hundred.
const longest = 1000

// Shorten cuts every text in the report of a machine, so that none fills a screen.
func Shorten(n *api.Node) { shorten(reflect.ValueOf(n).Elem()) }

func shorten(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(words.Cut(v.String(), longest))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shorten(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			shorten(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			shorten(v.Index(i))
		}
	}
}
