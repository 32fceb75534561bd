package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// anyText is the ordinary and the odd.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-zA-Z0-9 ._:/~>=-]{1,20}`), rapid.String(),
		rapid.SampledFrom([]string{`"`, `\`, "<b>&", "ü", "\x00", "\xff", "\u2028", `\"}`}))
}

func opt[T any](g *rapid.Generator[T]) *rapid.Generator[gpu.Opt[T]] {
	return rapid.Custom(func(t *rapid.T) gpu.Opt[T] {
		if !rapid.Bool().Draw(t, "known") {
			return gpu.Opt[T]{}
		}
		return gpu.Some(g.Draw(t, "value"))
	})
}

func anySeconds() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 60, 0.5, -1, 1e21, 1e-9, 86400.25}),
		rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64))
}

func anyInt() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(0, 100), rapid.Int())
}

func anyTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "zone"))
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).In(zone)
	})
}

func anyRequest() *rapid.Generator[RequestBody] {
	return rapid.Custom(func(t *rapid.T) RequestBody {
		return RequestBody{
			ID: anyText().Draw(t, "id"), Service: anyText().Draw(t, "service"), Name: anyText().Draw(t, "name"),
			GPUs: anyInt().Draw(t, "gpus"), Memory: gpu.MiB(anyInt().Draw(t, "memory")), Slots: opt(anyInt()).Draw(t, "slots"),
			GPU: gpu.Ref(anyText().Draw(t, "gpu")), Prefer: gpu.Ref(anyText().Draw(t, "prefer")), Policy: anyText().Draw(t, "policy"), Where: anyText().Draw(t, "where"),
			Binding: anyText().Draw(t, "binding"), PID: anyInt().Draw(t, "pid"), TTL: opt(anySeconds()).Draw(t, "ttl"),
			Timeout: opt(anySeconds()).Draw(t, "timeout"), Priority: opt(anyInt()).Draw(t, "priority"),
			Learned: rapid.Bool().Draw(t, "learned"), Enforce: anyText().Draw(t, "enforce"), Isolation: anyText().Draw(t, "isolation"), Parkable: rapid.Bool().Draw(t, "parkable"), Unshared: rapid.Bool().Draw(t, "unshared"),
			Unit: anyText().Draw(t, "unit"), Scope: rapid.SliceOfN(anyText(), 0, 2).Draw(t, "scope"), Caps: rapid.SliceOfN(anyText(), 0, 2).Draw(t, "caps"), Comment: anyText().Draw(t, "comment"),
		}
	})
}

func anyLease() *rapid.Generator[LeaseBody] {
	return rapid.Custom(func(t *rapid.T) LeaseBody {
		l := LeaseBody{
			ID: anyText().Draw(t, "id"), Fence: rapid.Uint64().Draw(t, "fence"), State: anyText().Draw(t, "state"),
			Holder: api.Holder{
				Service: anyText().Draw(t, "service"), Name: anyText().Draw(t, "name"), User: anyText().Draw(t, "user"),
				UID: opt(anyInt()).Draw(t, "uid"), PID: anyInt().Draw(t, "pid"),
			},
			Binding: anyText().Draw(t, "binding"), Granted: anyTime().Draw(t, "granted"), TTL: anySeconds().Draw(t, "ttl"),
			Priority: anyInt().Draw(t, "priority"), EnforcedBy: anyText().Draw(t, "by"), IsolatedBy: anyText().Draw(t, "isolated"), Note: anyText().Draw(t, "note"),
			Heir: anyInt().Draw(t, "heir"), Parts: []api.LeasePart{}, Unit: anyText().Draw(t, "unit"), Scope: rapid.SliceOfN(anyText(), 0, 2).Draw(t, "scope"), Comment: anyText().Draw(t, "comment"),
		}
		l.Parkable, l.Unshared, l.Asked = rapid.Bool().Draw(t, "parkable"), rapid.Bool().Draw(t, "unshared"), gpu.MiB(anyInt().Draw(t, "asked"))
		if rapid.Bool().Draw(t, "parked") {
			l.Parking = &api.Parking{Since: anyTime().Draw(t, "parked since"), Why: anyText().Draw(t, "why"), Times: anyInt().Draw(t, "times")}
			l.Idle = &api.Idle{Since: anyTime().Draw(t, "idle since"), Utilization: opt(rapid.Custom(func(t *rapid.T) gpu.Percent { return gpu.Percent(rapid.IntRange(0, 100).Draw(t, "percent")) })).Draw(t, "use")}
		}
		if rapid.Bool().Draw(t, "processes") {
			l.Processes = []api.Belonging{{GPU: anyText().Draw(t, "on"), PID: anyInt().Draw(t, "process"), Evidence: anyText().Draw(t, "evidence")}}
		}
		if rapid.Bool().Draw(t, "launch") {
			l.Launch = &api.Launch{Context: gpu.MiB(anyInt().Draw(t, "context")), Devices: []gpu.Device{{UUID: anyText().Draw(t, "uuid")}}, MPS: anyText().Draw(t, "mps")}
		}
		if rapid.Bool().Draw(t, "expires") {
			expires := anyTime().Draw(t, "at")
			l.Expires = &expires
		}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			l.Parts = append(l.Parts, api.LeasePart{
				GPU: anyText().Draw(t, "gpu"), Memory: gpu.MiB(anyInt().Draw(t, "memory")), Slots: anyInt().Draw(t, "slots"),
				Index: opt(anyInt()).Draw(t, "index"), Measured: opt(rapid.Map(anyInt(), func(n int) gpu.MiB { return gpu.MiB(n) })).Draw(t, "measured"),
			})
		}
		return l
	})
}

// reread is what encoding/json makes of a text.
func reread[T any](t *rapid.T, text []byte) T {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// same checks that what Append wrote reads back like what encoding/json
// writes, and that Read, if it takes it, agrees.
func same[T any](t *rapid.T, v T, written []byte, read func(*T, []byte) bool) {
	theirs, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want := reread[T](t, theirs)
	if got := reread[T](t, written); !reflect.DeepEqual(got, want) {
		t.Fatalf("Append wrote %s\nencoding/json %s", written, theirs)
	}
	for _, text := range [][]byte{written, theirs} {
		var got T
		if read(&got, text) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s was read as\n%+v, and by encoding/json as\n%+v", text, got, want)
		}
	}
}

func TestAppendIsTheSameJSON(t *testing.T) {
	t.Run("request", rapid.MakeCheck(func(t *rapid.T) {
		v := anyRequest().Draw(t, "request")
		same(t, v, v.Append(nil), (*RequestBody).Read)
	}))
	t.Run("release", rapid.MakeCheck(func(t *rapid.T) {
		v := ReleaseBody{ID: anyText().Draw(t, "id"), Fence: rapid.Uint64().Draw(t, "fence")}
		same(t, v, v.Append(nil), (*ReleaseBody).Read)
	}))
	t.Run("renewal", rapid.MakeCheck(func(t *rapid.T) {
		v := RenewalBody{ID: anyText().Draw(t, "id"), Fence: rapid.Uint64().Draw(t, "fence"), TTL: opt(anySeconds()).Draw(t, "ttl")}
		same(t, v, v.Append(nil), (*RenewalBody).Read)
	}))
	t.Run("lease", rapid.MakeCheck(func(t *rapid.T) {
		v := anyLease().Draw(t, "lease")
		same(t, v, v.Append(nil), (*LeaseBody).Read)
	}))
	t.Run("leases", rapid.MakeCheck(func(t *rapid.T) {
		v := LeasesBody{Leases: []api.Lease{}, Waiting: []api.Waiting{}, More: api.More{Next: anyText().Draw(t, "next"), Note: anyText().Draw(t, "more")}}
		for range rapid.IntRange(0, 3).Draw(t, "leases") {
			v.Leases = append(v.Leases, api.Lease(anyLease().Draw(t, "lease")))
		}
		for range rapid.IntRange(0, 2).Draw(t, "waiting") {
			w := api.Waiting{ID: anyText().Draw(t, "id"), Position: anyInt().Draw(t, "position"), Since: anyTime().Draw(t, "since"), Memory: gpu.MiB(anyInt().Draw(t, "memory"))}
			if rapid.Bool().Draw(t, "estimated") {
				likely := anyTime().Draw(t, "likely")
				w.Deadline, w.Estimate = &likely, &api.Estimate{Likely: &likely, Unknown: anyText().Draw(t, "unknown")}
			}
			v.Waiting = append(v.Waiting, w)
		}
		same(t, v, v.Append(nil), (*LeasesBody).Read)
	}))
	t.Run("ended", rapid.MakeCheck(func(t *rapid.T) {
		v := EndedBody{ID: anyText().Draw(t, "id")}
		if rapid.Bool().Draw(t, "held") {
			l := anyLease().Draw(t, "lease")
			v.Lease = (*api.Lease)(&l)
		}
		same(t, v, v.Append(nil), (*EndedBody).Read)
	}))
}

// Everything that a status may have is written and read the quick way, and as encoding/json
// does it.
func TestStatusBodies(t *testing.T) {
	var full StatusBody
	fill(t, reflect.ValueOf(&full).Elem())
	full.GPUs[0].Reason = "39 °C is below temp_optimal"
	full.GPUs[0].Sample.Energy = gpu.Some(48617050.06)
	bare := StatusBody{GPUs: []api.Status{{Sample: &gpu.Sample{Throttle: []gpu.ThrottleReason{}, Processes: []gpu.Process{}}}}, Utilization: api.Utilization{PerGPU: map[string]api.GPUUtilization{}}}
	for _, v := range []StatusBody{full, bare} {
		reads(t, v, v.Append(nil), (*StatusBody).Read)
	}
	var available AvailableBody
	fill(t, reflect.ValueOf(&available).Elem())
	reads(t, available, available.Append(nil), (*AvailableBody).Read)
}

// reads checks that what Append wrote, and what encoding/json writes, is read the quick way.
func reads[T any](t *testing.T, v T, written []byte, read func(*T, []byte) bool) {
	t.Helper()
	for _, text := range []string{string(written), mustJSON(t, v)} {
		var got, want T
		if !read(&got, []byte(text)) {
			t.Errorf("%s is not taken", text)
		} else if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(got, v) {
			t.Errorf("%s is read as %+v, and by encoding/json as %+v (%v)", text, got, want, err)
		}
	}
}

// The ordinary is read the quick way: else there would be no point in it.
func TestReadTakesTheOrdinary(t *testing.T) {
	expires := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	l := LeaseBody{
		ID: "embedder-1", Fence: 7, State: "active", Holder: api.Holder{Service: "s", Name: "python", User: "root", UID: gpu.Some(0), PID: 4711},
		Binding: "ttl", Granted: expires.Add(-time.Minute), TTL: 60.5, Expires: &expires, Priority: -3, EnforcedBy: "none", Note: "raised",
		Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 4096, Slots: 1, Measured: gpu.Some(gpu.MiB(17))}, {GPU: "GPU-2"}},
	}
	var lease LeaseBody
	if !lease.Read(l.Append(nil)) || !reflect.DeepEqual(lease, l) {
		t.Errorf("read %+v", lease)
	}
	l.Launch = &api.Launch{Context: 500, Isolation: "env", ClearedBy: "not checked", Devices: []gpu.Device{{
		UUID: "GPU-1", Name: "NVIDIA H200", Vendor: gpu.NVIDIA, Backend: "nvml", MemoryTotal: 143771, Links: []gpu.Link{{To: "GPU-2", Kind: "nvlink", Lanes: 18}},
	}}}
	if !lease.Read(l.Append(nil)) || !reflect.DeepEqual(lease, l) {
		t.Errorf("read %+v for a launcher", lease)
	}
	l.Launch = nil
	e := EndedBody{ID: "embedder-1", Lease: (*api.Lease)(&l)}
	var ended EndedBody
	if !ended.Read(e.Append(nil)) || !reflect.DeepEqual(ended, e) {
		t.Errorf("read %+v", ended)
	}
	list := LeasesBody{
		Leases:  []api.Lease{api.Lease(l), {ID: "other", State: "active", Binding: "named", EnforcedBy: "none", Parts: []api.LeasePart{}, Processes: []api.Belonging{{GPU: "GPU-1", PID: 7, Evidence: "descent"}}}},
		Waiting: []api.Waiting{{ID: "next", Position: 1, Since: expires, Estimate: &api.Estimate{Likely: &expires}}}, More: api.More{Next: "x"},
	}
	var leases LeasesBody
	if !leases.Read(list.Append(nil)) || !reflect.DeepEqual(leases, list) {
		t.Errorf("read %+v", leases)
	}
	release := ReleaseBody{ID: "embedder-1", Fence: 7}
	if got := (ReleaseBody{}); !got.Read(release.Append(nil)) || got != release {
		t.Errorf("read %+v", got)
	}
	renewal := RenewalBody{ID: "embedder-1", Fence: 7, TTL: gpu.Some(60.0)}
	if got := (RenewalBody{}); !got.Read(renewal.Append(nil)) || got != renewal {
		t.Errorf("read %+v", got)
	}
	r := RequestBody{Binding: "ttl", ID: "embedder-1", Memory: 4096, TTL: gpu.Some(60.0), Timeout: gpu.Some(0.0), Slots: gpu.Some(1), GPUs: 2, PID: 3, Priority: gpu.Some(5),
		Policy: "pack", Where: "memory>=40GiB,name~H200", Learned: true, Enforce: "auto", Isolation: "cgroup", Unit: "embedder.service", Comment: "ask Ada"}
	var request RequestBody
	if !request.Read(r.Append(nil)) || !reflect.DeepEqual(request, r) {
		t.Errorf("read %+v", request)
	}
}

// FuzzRead holds Read against encoding/json: what it takes, that takes too, and
// reads the same.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"id":"a","memory_mb":1,"ttl_seconds":60}`, `{}`, `{"id":"a"{"b":1}`, `{,"id":"a"}`, `{"id":"a",}`, `{"id":"a"}}`,
		`{"memory_mb":01}`, `{"memory_mb":-0}`, `{"ttl_seconds":1.}`, `{"ttl_seconds":.5}`, `{"ttl_seconds":-}`, `{"ttl_seconds":1e3}`,
		`{"id":"a","id":"b"}`, `{"parts":[]}`, `{"parts":[{}]}`, `{"parts":[{},]}`, `{"holder":{}}`, `{"granted":"2020-01-01T00:00:00Z"}`,
		`{"lease":{"id":"x"}}`, `{"id":"a" }`, `{"gpus":1.5}`, `null`, `{"id":null}`, `{"ID":"a"}`,
		`{"learned_memory":true}`, `{"learned_memory":false,"id":"a"}`, `{"learned_memory":tru}`, `{"learned_memory":truee}`, `{"enforce":"auto","policy":"x","where":"a<b"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		agree(t, text, (*RequestBody).Read)
		agree(t, text, (*ReleaseBody).Read)
		agree(t, text, (*RenewalBody).Read)
		agree(t, text, (*LeaseBody).Read)
		agree(t, text, (*EndedBody).Read)
		agree(t, text, (*LeasesBody).Read)
		agree(t, text, (*StatusBody).Read)
		agree(t, text, (*AvailableBody).Read)
	})
}

func agree[T any](t *testing.T, text []byte, read func(*T, []byte) bool) {
	var got, want T
	if !read(&got, text) {
		return
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("Read takes %q: %v", text, err)
	}
	if a, b := mustJSON(t, got), mustJSON(t, want); a != b {
		t.Fatalf("%q is read as %s and by encoding/json as %s", text, a, b)
	}
}

func mustJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func BenchmarkLeaseJSON(b *testing.B) {
	expires := time.Now()
	l := LeaseBody{
		ID: "embedder-1", Fence: 7, State: "active", Holder: api.Holder{Name: "python", User: "root", UID: gpu.Some(0), PID: 4711},
		Binding: "ttl", Granted: expires, TTL: 60, Expires: &expires, EnforcedBy: "none", Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 4096, Slots: 1}},
	}
	text := l.Append(nil)
	b.Run("append", func(b *testing.B) {
		var buffer []byte
		for b.Loop() {
			buffer = l.Append(buffer[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			var got LeaseBody
			got.Read(text)
		}
	})
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			_, _ = json.Marshal(&l)
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			var got LeaseBody
			_ = json.Unmarshal(text, &got)
		}
	})
}

// A field that is added to one of these types is not forgotten here.
func TestAppendKnowsEveryField(t *testing.T) {
	everyField(t, (*RequestBody).Append)
	everyField(t, (*ReleaseBody).Append)
	everyField(t, (*RenewalBody).Append)
	everyField(t, (*LeaseBody).Append)
	everyField(t, (*EndedBody).Append)
	everyField(t, (*StatusBody).Append)
	everyField(t, (*AvailableBody).Append)
}

func everyField[T any](t *testing.T, write func(*T, []byte) []byte) {
	var full, got T
	fill(t, reflect.ValueOf(&full).Elem())
	if err := json.Unmarshal(write(&full, nil), &got); err != nil {
		t.Fatal(err)
	}
	if a, b := mustJSON(t, got), mustJSON(t, full); a != b {
		t.Errorf("%T: Append wrote %s of %s", full, a, b)
	}
}

// fill sets every field to something that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		text := "7" // for a number that may be absent
		if v.Type() == reflect.TypeFor[time.Time]() {
			text = `"2030-01-02T03:04:05Z"`
		}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(7).Convert(v.Type()))
	}
}
