package plugin

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

// filled sets every field of a value, and what it points to, to something that JSON does
// not leave out.
func filled(v reflect.Value, depth int) {
	if set, is := v.Addr().Interface().(*time.Time); is {
		*set = time.Unix(1, 0)
		return
	}
	if text, is := v.Addr().Interface().(json.Unmarshaler); is { // an optional number
		_ = text.UnmarshalJSON([]byte("1"))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("private")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key, depth+1)
		filled(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), depth+1)
		}
	}
}

// The page of a node shows the fields of this list, and no other that the daemon tells the
// driver: anybody who reaches the driver may read it.
func TestPageShowsListedFields(t *testing.T) {
	var status api.StatusAll
	var lease api.Lease
	filled(reflect.ValueOf(&status).Elem(), 0)
	filled(reflect.ValueOf(&lease).Elem(), 0)
	d := &Driver{o: Options{Node: "node-1"}, status: &status, facts: slice.Facts{Leases: []api.Lease{lease}}, known: map[string]*state{}}
	text, err := json.Marshal(d.Node())
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Status json.RawMessage
		Leases []json.RawMessage
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	keys := func(text json.RawMessage) string {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(maps.Keys(object)), " ")
	}
	var all struct {
		GPUs []json.RawMessage `json:"gpus"`
	}
	if err := json.Unmarshal(page.Status, &all); err != nil {
		t.Fatal(err)
	}
	var device struct{ Sample json.RawMessage }
	var held struct{ Holder json.RawMessage }
	if err := json.Unmarshal(all.GPUs[0], &device); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(page.Leases[0], &held); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		what string
		text json.RawMessage
		want string
	}{
		{"status", page.Status, "gpus host machine monitoring note utilization version"},
		{"device", all.GPUs[0], "cause device drain health leases multiplier reason sample since slots slower stale state state_cause trust"},
		{"sample", device.Sample, "blind clock_memory_mhz clock_sm_mhz gpu memory_busy_percent memory_free_mb memory_percent memory_temperature_celsius memory_total_mb memory_used_mb name power_of power_watts state temperature_celsius throttle_reasons time utilization_percent"},
		{"lease", page.Leases[0], "binding enforced_by exclusive fence from_pool granted holder id parent parts pool priority state"},
		{"holder", held.Holder, "name service uid user"},
	} {
		if got := keys(one.text); got != one.want {
			t.Errorf("the page shows of a %s\n%s\nwant\n%s", one.what, got, one.want)
		}
	}
}
