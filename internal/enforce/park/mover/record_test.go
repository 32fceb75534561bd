package mover

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
)

// The file has the members that it always had: another version of berth reads it.
func TestFormatOfTheFile(t *testing.T) {
	const text = `{"boot":"b","leases":[{
		"key":{"uid":1000,"id":"a"},"fence":7,"gpu":"GPU-A","user":"ada","phase":"parked","since":"2026-01-02T03:04:05Z","source":"hand",
		"by":{"user":"ada"},"in":{"user":1000},"why":"lunch","returns":true,"wanted":"2026-01-02T04:04:05Z","times":2,"moving":3000000000,
		"processes":[{"pid":5,"start":6,"memory_mb":7}],"awake":true,"unshared":true,"unshared_by":"owner","simulated":true}],"unknown":true}`
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if k := d.Leases[0]; k.Phase != "parked" || k.Since.IsZero() || k.Source != "hand" || !k.Returns || k.Wanted.IsZero() || k.Times != 2 {
		t.Errorf("%+v", k)
	}
	again, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var was, is any
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &is); err != nil {
		t.Fatal(err)
	}
	members := func(file any) map[string]any {
		return file.(map[string]any)["leases"].([]any)[0].(map[string]any)
	}
	for name := range members(was) {
		if _, there := members(is)[name]; !there {
			t.Errorf("%s is missing", name)
		}
	}
	for name, value := range members(is) {
		if before, there := members(was)[name]; !there || name != "key" && name != "in" && name != "by" && !reflect.DeepEqual(before, value) {
			t.Errorf("%s is %v, and was %v", name, value, before)
		}
	}
}

// A process that cannot be looked at has not ended: its memory may be away.
func TestWhatCannotBeLookedAtHasNotEnded(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "4711", "stat"), 0o700); err != nil { // which cannot be read
		t.Fatal(err)
	}
	gone := move.Process{PID: 4712, Start: 1}
	if ended(process.At(root), []move.Process{gone, {PID: 4711, Start: 1}}) || !ended(process.At(root), []move.Process{gone}) {
		t.Error("what cannot be looked at has ended, or what is gone has not")
	}
}
