package lease

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRecordsAreTheJSONTheySeem holds the encoder written by hand to
// encoding/json: what either writes, both read as the same record.
func TestRecordsAreTheJSONTheySeem(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", "quote\"back\\slash", "\x00\n\t\x7f", "\u2028<&>é𝄞", "\xff\xc3"}))
	part := rapid.Make[PartRecord]()
	lease := rapid.Custom(func(t *rapid.T) *LeaseRecord {
		l := rapid.Make[LeaseRecord]().Draw(t, "lease")
		l.User, l.Service, l.Name, l.Note = text.Draw(t, "user"), text.Draw(t, "service"), text.Draw(t, "name"), text.Draw(t, "note")
		l.Parts = rapid.SliceOfN(part, 1, 3).Draw(t, "parts")
		return &l
	})
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Version: RecordVersion, Kind: Kind(text.Draw(t, "kind")), ID: text.Draw(t, "id"), Why: text.Draw(t, "why"),
			Time: rapid.Int64().Draw(t, "time"), Fence: rapid.Uint64().Draw(t, "fence"),
			Expires: rapid.Int64().Draw(t, "expires"), TTL: rapid.Int64().Draw(t, "ttl"),
		}
		if rapid.Bool().Draw(t, "has a lease") {
			r.Lease = lease.Draw(t, "lease")
		}
		ours := r.Append(nil)
		theirs, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		a, err := DecodeRecord(ours)
		if err != nil {
			t.Fatalf("%v in %s", err, ours)
		}
		b, err := DecodeRecord(theirs)
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

// TestRecordVersion1 holds the format of version 1, which is on people's disks.
// This text never changes; a new version gets its own.
func TestRecordVersion1(t *testing.T) {
	b := newBook(t)
	replayText(t, b, version1)
	want := `{"v":1,"kind":"grant","time_ns":1794744000000000000,"id":"wells","fence":7,"lease":{"uid":1000,"user":"ada","service":"imaging","name":"python","pid":4711,"start":123456,"boot":"0b8a","binding":"ttl","ttl_ns":60000000000,"granted_ns":1794744000000000000,"expires_ns":1794744090000000000,"parts":[{"gpu":"GPU-1","memory_mb":4096,"slots":1},{"gpu":"GPU-2","memory_mb":4096}],"priority":5,"state":"parked","enforced_by":"mps","raised":true,"note":"raised"}}
{"v":1,"kind":"fence","fence":9}
`
	if got := b.Dump(); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

const version1 = `{"v":1,"kind":"grant","time_ns":1794744000000000000,"id":"wells","fence":7,"lease":{"uid":1000,"user":"ada","service":"imaging","name":"python","pid":4711,"start":123456,"boot":"0b8a","binding":"ttl","ttl_ns":30000000000,"granted_ns":1794744000000000000,"expires_ns":1794744030000000000,"parts":[{"gpu":"GPU-1","memory_mb":4096,"slots":1},{"gpu":"GPU-2","memory_mb":4096}],"priority":5,"state":"active","enforced_by":"mps","raised":true,"note":"raised"}}
{"v":1,"kind":"grant","time_ns":1794744001000000000,"id":"b","fence":8,"lease":{"uid":-1,"binding":"named","granted_ns":1794744001000000000,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"grant","time_ns":1794744002000000000,"id":"c","fence":9,"lease":{"uid":0,"binding":"process","pid":1,"boot":"x","granted_ns":1794744002000000000,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"renew","time_ns":1794744030000000000,"id":"wells","fence":7,"expires_ns":1794744090000000000,"ttl_ns":60000000000}
{"v":1,"kind":"park","time_ns":1794744031000000000,"id":"wells","fence":7,"why":"somebody more important waits"}
{"v":1,"kind":"resume","time_ns":1794744032000000000,"id":"wells","fence":7}
{"v":1,"kind":"park","time_ns":1794744033000000000,"id":"wells","fence":7,"a_field_of_tomorrow":{"x":[1]}}
{"v":1,"kind":"release","time_ns":1794744034000000000,"id":"b","fence":8,"why":"its holder died"}
{"v":1,"kind":"revoke","time_ns":1794744035000000000,"id":"c","fence":9}
`

// TestRecordVersion2 holds what version 2 added, in the same way.
func TestRecordVersion2(t *testing.T) {
	b := newBook(t)
	replayText(t, b, version2)
	want := `{"v":1,"kind":"grant","time_ns":5,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":43,"start":8,"boot":"y","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":1,"kind":"fence","fence":9}
`
	if got := b.Dump(); got != want {
		t.Errorf("read as\n%s\nwant\n%s", got, want)
	}
}

const version2 = `{"v":1,"kind":"grant","time_ns":5,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":42,"start":7,"boot":"x","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
{"v":2,"kind":"bind","time_ns":6,"id":"c","fence":9,"lease":{"uid":1,"user":"ada","name":"berth","pid":43,"start":8,"boot":"y","binding":"process","granted_ns":5,"parts":[{"gpu":"GPU-1","slots":1}],"state":"active"}}
`

func TestUnknownVersions(t *testing.T) {
	for _, line := range []string{`{"v":3}`, `{"v":3,"kind":["of","another","shape"],"fence":"x"}`, `{"kind":{},"v":99}`} {
		var version *VersionError
		if _, err := DecodeRecord([]byte(line)); !errors.As(err, &version) || !strings.Contains(err.Error(), "use the berth that wrote it") {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{``, `{`, `null`, `[]`, `{}`, `{"v":0}`, `{"v":-1}`, `{"v":1}{}`, `{"v":1.5}`, `{"v":1,"fence":-1}`, `{"v":1,"fence":1e99}`, "\x00\xff"} {
		if r, err := DecodeRecord([]byte(line)); err == nil {
			t.Errorf("%q was read as %+v", line, r)
		}
	}
}

// FuzzDecodeRecord: nothing on a disk can make the book panic or go wrong.
func FuzzDecodeRecord(f *testing.F) {
	for line := range strings.Lines(version1 + version2) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRecord(data)
		if err != nil {
			return
		}
		b := New()
		if b.Replay(&r) == nil {
			again := New()
			replayText(t, again, b.Dump())
			if again.Dump() != b.Dump() {
				t.Errorf("%s\nbecame\n%s", b.Dump(), again.Dump())
			}
		}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
	})
}
