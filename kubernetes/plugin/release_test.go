package plugin

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// releases answers each release with the next of some codes; empty: it is released.
type releases struct {
	Daemon
	codes  []string
	fences []uint64
}

func (r *releases) Release(_ context.Context, _ string, fence uint64) (api.Ended, error) {
	r.fences = append(r.fences, fence)
	code := r.codes[len(r.fences)-1]
	if code == "" {
		return api.Ended{}, nil
	}
	return api.Ended{}, &api.Problem{Status: http.StatusConflict, Code: code}
}

// A lease that is gone is released, whoever else has one of the same id; every other
// refusal is an error, so that kubelet asks again.
func TestRelease(t *testing.T) {
	for _, c := range []struct {
		codes  []string
		fences []uint64
		fails  bool
	}{
		{[]string{""}, []uint64{7}, false},
		{[]string{codeUnknown}, []uint64{7}, false},
		{[]string{codeStale, ""}, []uint64{7, 0}, false},
		{[]string{codeAmbiguous, ""}, []uint64{7, 0}, false},
		{[]string{codeAmbiguous, codeAmbiguous}, []uint64{7, 0}, false},
		{[]string{codeStale, codeUnknown}, []uint64{7, 0}, false},
		{[]string{"journal"}, []uint64{7}, true},
		{[]string{codeStale, "journal"}, []uint64{7, 0}, true},
	} {
		r := &releases{codes: c.codes}
		d := &Driver{o: Options{Daemon: r}}
		if err := d.release(t.Context(), "uid", 7); (err != nil) != c.fails || !slices.Equal(r.fences, c.fences) {
			t.Errorf("%q: %v, asked with %d", c.codes, err, r.fences)
		}
	}
}
