package claim

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// FuzzParameters: whatever somebody writes is refused with a sentence, or is one of
// the few things that there are.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		lease(`,"service":"s","enforce":"auto","caps":["cupy","jax","torch"]`), lease(`,"priority":7,"socket":true`), lease(`,"enforce":"mps"`),
		lease(`,"service":"a","service":"b"`), `{}`, `[`, `{"a":{"b":[1,2,{"c":null}]}}`, "{\"service\":\"\xff\"}", `{"\ud800":1}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, class bool) {
		read, err := Read(configured(whole(), class, string(raw)), node)
		if err != nil {
			if r := refusal(t, err); r.Code != BadParameters || !utf8.ValidString(r.Text) || len(r.Text) > 600 {
				t.Errorf("%+v", r)
			}
			return
		}
		p := read.Parameters
		known := func(list []string) bool {
			return !slices.ContainsFunc(list, func(name string) bool { return !slices.Contains(libraries, name) })
		}
		if p.Enforce != "" && !slices.Contains(enforcings, p.Enforce) || !known(p.Caps) || len(p.Caps) > 3 || !class && (p.Priority != nil || p.Socket) {
			t.Errorf("parameters %+v", p)
		}
		r, err := read.Request(devices, services, true)
		if code := (*Refusal)(nil); errors.As(err, &code) && (code.Code == OtherService || len(p.Service) > 100) && p.Claimed {
			return
		}
		if err != nil || len(r.Caps) > 0 != (r.Enforce == auto || r.Enforce == framework) || !known(r.Caps) {
			t.Errorf("request %+v, %v", r, err)
		}
	})
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"gpu", "gpu/a", "gpu-1", "gpu-1-s0", "node-1", "gpu.berth.dev", podUID, ""}))
}

func quantities() *rapid.Generator[resource.Quantity] {
	return rapid.Custom(func(t *rapid.T) resource.Quantity {
		if rapid.Bool().Draw(t, "scaled") {
			q, err := resource.ParseQuantity(rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,12})?(n|u|m|k|Ki|Mi|Gi|Ei|E|e[0-9]{1,2})?`).Draw(t, "text"))
			if err == nil {
				return q
			}
		}
		return *resource.NewQuantity(rapid.Int64().Draw(t, "number"), resource.BinarySI)
	})
}

func drawResult(t *rapid.T) result {
	r := result{Request: texts().Draw(t, "request"), Driver: "gpu.berth.dev", Pool: node, Device: rapid.SampledFrom([]string{"gpu-1", "gpu-2", "gpu-1-s0", "x"}).Draw(t, "device")}
	if rapid.IntRange(0, 5).Draw(t, "another driver") == 0 {
		r.Driver, r.Pool = texts().Draw(t, "driver"), texts().Draw(t, "pool")
	}
	if rapid.Bool().Draw(t, "shared") {
		id := types.UID(texts().Draw(t, "share"))
		r.ShareID = &id
		r.ConsumedCapacity = rapid.MapOf(rapid.SampledFrom([]resourcev1.QualifiedName{"memory", "slots", "gpu.berth.dev/memory", "other"}), quantities()).Draw(t, "capacity")
	}
	if rapid.IntRange(0, 4).Draw(t, "admin") == 0 {
		admin := rapid.Bool().Draw(t, "admin access")
		r.AdminAccess = &admin
	}
	return r
}

// Whatever the API server holds, Read answers, refuses with a sentence, and never gives
// less than Kubernetes has given away.
func TestReadAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := sample(rapid.SliceOfN(rapid.Custom(drawResult), 0, 5).Draw(t, "results")...)
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			c.UID, c.Namespace, c.Name = types.UID(texts().Draw(t, "uid")), texts().Draw(t, "namespace"), texts().Draw(t, "name")
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(texts().Draw(t, "pod"))})
		}
		for range rapid.IntRange(0, 2).Draw(t, "configurations") {
			configured(c, rapid.Bool().Draw(t, "class"), rapid.SampledFrom([]string{lease(""), lease(`,"service":"s"`), `{}`}).Draw(t, "parameters"), rapid.SliceOfN(texts(), 0, 2).Draw(t, "requests")...)
		}
		if len(c.Status.Allocation.Devices.Config) > 0 && rapid.IntRange(0, 9).Draw(t, "no parameters") == 0 {
			c.Status.Allocation.Devices.Config[0].Opaque = nil
			c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourcev1.DeviceAllocationConfiguration{
				DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "gpu.berth.dev", Parameters: runtime.RawExtension{}}}})
		}
		read, err := Read(c, node)
		if err == nil != (read.UID != "") || Allocated(c, node) != (len(Results(c, node)) > 0) {
			t.Fatalf("%+v, %v", read, err)
		}
		if err != nil {
			if r, is := err.(*Refusal); !is || r.Code == "" || strings.ContainsAny(r.Text, "\n\x00") {
				t.Fatalf("refused by %v", err)
			}
			return
		}
		shares := 0
		for _, p := range read.Parts {
			shares += len(p.Shares)
			if p.Memory < 0 || p.Memory > maxMemory || p.Slots < 0 || p.Slots > maxSlots || p.Fixed && p.Memory+1 > 1 {
				t.Fatalf("part %+v", p)
			}
			var bytes float64
			for _, r := range Results(c, node) {
				if admin := r.AdminAccess != nil && *r.AdminAccess; r.Device == p.Device && !admin && !p.Admin {
					q, has := r.ConsumedCapacity["memory"]
					if !has {
						q = r.ConsumedCapacity["gpu.berth.dev/memory"]
					}
					bytes += q.AsApproximateFloat64()
				}
			}
			if mib := bytes / (1 << 20); float64(p.Memory) < math.Floor(mib) || float64(p.Memory) > mib+float64(len(p.Shares)) {
				t.Fatalf("%d MiB for %v bytes", p.Memory, bytes)
			}
		}
		if shares != len(Results(c, node)) {
			t.Fatalf("%d results became %d shares", len(Results(c, node)), shares)
		}
		if r, err := read.Request(devices, services, true); err == nil && (len(r.Parts) == 0 || !r.Admitted || r.ID != claimUID && r.ID != string(c.UID) || len(r.Scope) == 0) {
			t.Fatalf("request %+v", r)
		}
	})
}
