package stored_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// TestEntriesAreTheJSONTheySeem holds the encoder written by hand to
// encoding/json: what either writes, both read as the same entry.
func TestEntriesAreTheJSONTheySeem(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", "quote\"back\\slash", "\x00\n\t\x7f", "\u2028<&>é𝄞", "\xff\xc3"}))
	part := rapid.Make[stored.Part]()
	anyLease := rapid.Custom(func(t *rapid.T) *stored.Lease {
		l := rapid.Make[stored.Lease]().Draw(t, "lease")
		l.User, l.Service, l.Name, l.Note = text.Draw(t, "user"), text.Draw(t, "service"), text.Draw(t, "name"), text.Draw(t, "note")
		l.Parts = rapid.SliceOfN(part, 1, 3).Draw(t, "parts")
		l.Unit = text.Draw(t, "unit")
		l.Scope = rapid.SliceOfN(text, 0, 3).Draw(t, "scope")
		return &l
	})
	rapid.Check(t, func(t *rapid.T) {
		r := stored.Entry{
			Version: stored.Version, Kind: stored.Kind(text.Draw(t, "kind")), ID: text.Draw(t, "id"), Why: text.Draw(t, "why"),
			Time: rapid.Int64().Draw(t, "time"), Fence: rapid.Uint64().Draw(t, "fence"),
			Expires: rapid.Int64().Draw(t, "expires"), TTL: rapid.Int64().Draw(t, "ttl"),
		}
		if rapid.Bool().Draw(t, "says who") {
			r.By = stored.By{User: text.Draw(t, "by"), UID: rapid.IntRange(-1, 1<<31).Draw(t, "uid"), Token: text.Draw(t, "token"), Door: text.Draw(t, "door")}
		}
		if rapid.Bool().Draw(t, "has a lease") {
			r.Lease = anyLease.Draw(t, "lease")
		}
		ours := lease.AppendEntry(nil, &r)
		theirs, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		a, err := stored.Decode(ours)
		if err != nil {
			t.Fatalf("%v in %s", err, ours)
		}
		b, err := stored.Decode(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("we write\n%s\nand encoding/json\n%s", ours, theirs)
		}
		if strings.ContainsAny(string(ours), "\n\r") {
			t.Fatalf("a line break in %s", ours)
		}
	})
}

func TestUnknownVersions(t *testing.T) {
	for _, line := range []string{`{"v":8}`, `{"v":8,"kind":["of","another","shape"],"fence":"x"}`, `{"kind":{},"v":99}`} {
		var version *stored.VersionError
		if _, err := stored.Decode([]byte(line)); !errors.As(err, &version) || !strings.Contains(err.Error(), "use the berth that wrote it") {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{``, `{`, `null`, `[]`, `{}`, `{"v":0}`, `{"v":-1}`, `{"v":1}{}`, `{"v":1.5}`, `{"v":1,"fence":-1}`, `{"v":1,"fence":1e99}`, "\x00\xff"} {
		if r, err := stored.Decode([]byte(line)); err == nil {
			t.Errorf("%q was read as %+v", line, r)
		}
	}
}
