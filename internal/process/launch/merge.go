package launch

import (
	"strconv"
	"strings"
)

// PyTorch's allocator reads its options from one variable, separated by commas:
// "expandable_segments:True,roundup_power2_divisions:[256:1,512:2]". A list in brackets
// may hold commas itself.

// withShare returns a setting with the share of the device, or with the user's own share
// if that is smaller.
func withShare(conf string, share float64) string {
	for _, option := range options(conf) {
		if own, ok := valueOf(option, torchOption); ok {
			if v, err := strconv.ParseFloat(own, 64); err == nil && v > 0 && v < share {
				share = v
			}
		}
	}
	option := torchOption + ":" + formatShare(share)
	if rest := withoutOption(conf, torchOption); rest != "" {
		return rest + "," + option
	}
	return option
}

// withoutOption returns conf without one option, and with the others unchanged.
func withoutOption(conf, name string) string {
	var kept []string
	for _, option := range options(conf) {
		if _, is := valueOf(option, name); !is {
			kept = append(kept, option)
		}
	}
	return strings.Join(kept, ",")
}

func valueOf(option, name string) (string, bool) {
	key, value, ok := strings.Cut(option, ":")
	return strings.TrimSpace(value), ok && strings.TrimSpace(key) == name
}

// options splits a setting at the commas outside brackets.
func options(conf string) []string {
	var list []string
	depth, from := 0, 0
	for i := 0; i <= len(conf); i++ {
		switch {
		case i < len(conf) && conf[i] == '[':
			depth++
		case i < len(conf) && conf[i] == ']':
			depth--
		case i == len(conf) || conf[i] == ',' && depth <= 0:
			if option := strings.TrimSpace(conf[from:i]); option != "" {
				list = append(list, option)
			}
			from = i + 1
		}
	}
	return list
}
