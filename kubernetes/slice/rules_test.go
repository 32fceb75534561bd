package slice

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// semverRule is the pattern of semver.org for a version without a suffix.
var semverRule = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)

// broken lists what an API server would refuse about the devices of one pool. It
// follows the validation of Kubernetes 1.36.
func broken(devices []resourcev1.Device, s Shape) []string {
	var all []string
	names := map[string]bool{}
	for _, d := range devices {
		complain := func(format string, args ...any) { all = append(all, d.Name+": "+fmt.Sprintf(format, args...)) }
		if names[d.Name] {
			complain("the name is there twice")
		}
		names[d.Name] = true
		for _, text := range validation.IsDNS1123Label(d.Name) {
			complain("name: %s", text)
		}
		if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			complain("%d attributes and capacities", n)
		}
		for name, a := range d.Attributes {
			brokenName(string(name), complain)
			brokenAttribute(string(name), a, complain)
		}
		several := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
		if several && !s.Consumable {
			complain("it is shared, which the API server drops")
		}
		for name, c := range d.Capacity {
			brokenName(string(name), complain)
			switch {
			case c.Value.Sign() < 0:
				complain("%s is negative: %s", name, c.Value.String())
			case c.RequestPolicy != nil && !several:
				complain("%s has a policy, but the device is not shared", name)
			case c.RequestPolicy != nil:
				brokenPolicy(string(name), c, complain)
			}
		}
		if len(d.Taints) > resourcev1.DeviceTaintsMaxLength {
			complain("%d taints", len(d.Taints))
		}
		if len(d.Taints) > 0 && !s.Taints {
			complain("it has taints, which the API server drops")
		}
		brokenTaints(d.Taints, complain)
	}
	return all
}

func brokenName(name string, complain func(string, ...any)) {
	domain, id, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, id = "", name
	}
	if qualified && len(validation.IsDNS1123Subdomain(domain)) > 0 || len(validation.IsCIdentifier(id)) > 0 || len(id) > 32 {
		complain("the name %q is not one", name)
	}
}

func brokenAttribute(name string, a resourcev1.DeviceAttribute, complain func(string, ...any)) {
	n := 0
	if a.StringValue != nil {
		n++
		if len(*a.StringValue) > resourcev1.DeviceAttributeMaxValueLength || !utf8.ValidString(*a.StringValue) || *a.StringValue == "" {
			complain("%s is %q", name, *a.StringValue)
		}
	}
	if a.VersionValue != nil {
		n++
		if len(*a.VersionValue) > resourcev1.DeviceAttributeMaxValueLength || !semverRule.MatchString(*a.VersionValue) {
			complain("%s is %q", name, *a.VersionValue)
		}
	}
	if a.IntValue != nil {
		n++
	}
	if n != 1 {
		complain("%s has %d values", name, n)
	}
}

func brokenPolicy(name string, c resourcev1.DeviceCapacity, complain func(string, ...any)) {
	p := c.RequestPolicy
	if p.Default == nil || len(p.ValidValues) > 0 && p.ValidRange != nil {
		complain("%s has no default, or values and a range", name)
		return
	}
	for _, v := range p.ValidValues {
		if v.Cmp(c.Value) > 0 || p.Default.Cmp(v) != 0 {
			complain("%s has the value %s, and the default %s", name, v.String(), p.Default.String())
		}
	}
	r := p.ValidRange
	if r == nil {
		return
	}
	if r.Min == nil || r.Max == nil || r.Step == nil {
		complain("%s has half a range", name)
		return
	}
	for _, bad := range []struct {
		is   bool
		text string
	}{
		{r.Min.Cmp(c.Value) > 0, "min > value"},
		{p.Default.Cmp(*r.Min) < 0, "default < min"},
		{r.Min.Cmp(*r.Max) > 0, "min > max"},
		{r.Max.Cmp(c.Value) > 0, "max > value"},
		{p.Default.Cmp(*r.Max) > 0, "default > max"},
		{sum(*r.Min, *r.Step).Cmp(c.Value) > 0, "min + step > value"},
		{(p.Default.Value()-r.Min.Value())%r.Step.Value() != 0, "default ≠ min + n·step"},
		{(r.Max.Value()-r.Min.Value())%r.Step.Value() != 0, "max ≠ min + n·step"},
	} {
		if bad.is {
			complain("%s: %s (%s)", name, bad.text, c.Value.String())
		}
	}
}

func sum(a, b resource.Quantity) *resource.Quantity {
	a = a.DeepCopy()
	a.Add(b)
	return &a
}

func brokenTaints(taints []resourcev1.DeviceTaint, complain func(string, ...any)) {
	keys := map[string]bool{}
	for _, t := range taints {
		if keys[t.Key] {
			complain("taint %s twice", t.Key)
		}
		keys[t.Key] = true
		if len(validation.IsQualifiedName(t.Key)) > 0 || len(validation.IsValidLabelValue(t.Value)) > 0 || t.TimeAdded != nil {
			complain("taint %+v", t)
		}
		switch t.Effect {
		case resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute:
		default:
			complain("taint %s has the effect %q", t.Key, t.Effect)
		}
	}
}

// consumed returns what the scheduler puts down for a request, and whether the device
// has it. want is nil for a request that leaves the amount to the policy.
func consumed(c resourcev1.DeviceCapacity, want *resource.Quantity) (resource.Quantity, bool) {
	p := c.RequestPolicy
	got := c.Value
	switch {
	case want == nil && p != nil && p.Default != nil:
		got = *p.Default
	case want == nil:
	case p != nil && len(p.ValidValues) > 0 && want.Cmp(p.ValidValues[0]) < 0:
		got = p.ValidValues[0]
	case p == nil || p.ValidRange == nil:
		got = *want
	case want.Cmp(*p.ValidRange.Min) < 0:
		got = *p.ValidRange.Min
	default:
		least, step := p.ValidRange.Min.Value(), p.ValidRange.Step.Value()
		n := (want.Value() - least + step - 1) / step
		got = *resource.NewQuantity(least+n*step, resource.BinarySI)
	}
	return got, got.Cmp(c.Value) <= 0
}
