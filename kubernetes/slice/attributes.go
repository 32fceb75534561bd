package slice

import (
	"regexp"
	"strings"
	"unicode/utf8"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/gpu"
)

const standard = "resource.kubernetes.io/"

// attributes returns the known properties of a device, by the names that selectors use.
// It leaves out or cuts values that the API server would refuse.
func attributes(d gpu.Device, roots map[string]string) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
	a := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	text := func(name resourcev1.QualifiedName, value string) {
		if value != "" {
			a[name] = resourcev1.DeviceAttribute{StringValue: &value}
		}
	}
	version := func(name resourcev1.QualifiedName, value string) {
		if value != "" {
			a[name] = resourcev1.DeviceAttribute{VersionValue: &value}
		}
	}
	text("uuid", whole(d.UUID))
	text("type", kind(d))
	text("productName", cut(d.Name))
	text("vendor", cut(string(d.Vendor)))
	version("driverVersion", semver(d.Driver))
	version("computeCapability", semver(d.ComputeCapability))
	if address := Address(d.PCI); address != "" {
		text(standard+"pciBusID", address)
		text(standard+"pcieRoot", whole(roots[address]))
	}
	if node, known := d.NUMANode.Get(); known && node >= 0 {
		n := int64(node)
		a["numaNode"] = resourcev1.DeviceAttribute{IntValue: &n}
	}
	if d.Parent != "" {
		text("parent", whole(d.Parent))
		text("profile", profile.FindString(d.Name))
	}
	return a
}

// kind returns the value of the attribute type.
func kind(d gpu.Device) string {
	switch {
	case Simulated(d):
		return "simulated"
	case d.Parent != "":
		return "mig"
	}
	return "gpu"
}

// Simulated reports whether a device belongs to the simulator.
func Simulated(d gpu.Device) bool { return d.Vendor == gpu.Simulated || d.Backend == "sim" }

// profile finds the profile of a MIG instance in its name, such as 1g.18gb.
var profile = regexp.MustCompile(`\b[0-9]{1,2}(c\.[0-9]{1,2})?g\.[0-9]{1,4}gb(\+[a-z.]+)?`)

var numbers = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,3}`)

// semver returns a version as semver.org writes it: three numbers without leading zeros.
// It leaves out what follows the third. It returns "" for any other text.
func semver(text string) string {
	found := numbers.FindString(text)
	if found == "" || len(found) > resourcev1.DeviceAttributeMaxValueLength-4 {
		return ""
	}
	parts := append(strings.Split(found, "."), "0", "0")[:3]
	for i, p := range parts {
		if p = strings.TrimLeft(p, "0"); p == "" {
			p = "0"
		}
		parts[i] = p
	}
	return strings.Join(parts, ".")
}

var pci = regexp.MustCompile(`^([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

// Address returns a PCI address as Linux writes it, 0000:1b:00.0. NVIDIA's driver writes
// eight digits and capitals. Address returns "" for any other text.
func Address(text string) string {
	m := pci.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return ""
	}
	domain := strings.TrimLeft(m[1], "0")
	for len(domain) < 4 {
		domain = "0" + domain
	}
	return domain + ":" + m[2] + ":" + m[3] + "." + m[4]
}

// whole returns text if it fits into an attribute, or "" if it is too long: a cut name
// could be that of something else.
func whole(text string) string {
	if len(text) > resourcev1.DeviceAttributeMaxValueLength || !utf8.ValidString(text) {
		return ""
	}
	return text
}

// cut returns as much of a text as fits into an attribute.
func cut(text string) string { return gpu.Printable(text, resourcev1.DeviceAttributeMaxValueLength) }
