package slice

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// maxPlain is the greatest length of a name without a hash. A DNS label has at most 63
// characters, and the number of a fixed share must fit behind the name.
const maxPlain = 55

var (
	label  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	hashed = regexp.MustCompile(`-h[0-9a-f]{16}$`)
	shared = regexp.MustCompile(`^(.+)-s(0|[1-9][0-9]{0,4})$`)
	odd    = regexp.MustCompile(`[^a-z0-9]+`)
)

// DeviceName returns the published name of a device: a DNS label that depends only on its
// UUID. Different UUIDs have different names: a UUID that its name does not determine
// gets a hash.
func DeviceName(uuid string) string {
	name := strings.ToLower(uuid)
	vendor, rest, _ := strings.Cut(uuid, "-")
	plain := vendor == strings.ToUpper(vendor) && rest == strings.ToLower(rest)
	if plain && len(name) <= maxPlain && label.MatchString(name) && !hashed.MatchString(name) && !shared.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(uuid))
	name = strings.Trim(odd.ReplaceAllString(name, "-"), "-")
	if len(name) > maxPlain-18 {
		name = strings.TrimRight(name[:maxPlain-18], "-")
	}
	if name == "" {
		name = "gpu"
	}
	return name + "-h" + hex.EncodeToString(sum[:8])
}

// shareName returns the name of a fixed share.
func shareName(device string, n int) string { return device + "-s" + strconv.Itoa(n) }

// cutShare returns the device and the number of a fixed share.
func cutShare(name string) (device string, n int, ok bool) {
	m := shared.FindStringSubmatch(name)
	if m == nil {
		return "", 0, false
	}
	n, err := strconv.Atoi(m[2])
	return m[1], n, err == nil
}

// isPod reports whether a name in the scope of a lease is the control group of a pod.
func isPod(name string) bool {
	return len(name) > 3 && strings.HasPrefix(name, "pod") && !strings.HasPrefix(name, "podman")
}
