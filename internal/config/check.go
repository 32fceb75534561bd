package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// read turns a written value into a value of the field, and refuses one that is
// impossible by itself. Its errors never show a secret.
func (f *field) read(s scalar) (any, error) {
	v, err := f.kind.read(s)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case float64:
		err = f.inRange(v, s)
	case string:
		err = f.allowed(v)
	}
	return v, err
}

func (f *field) inRange(v float64, s scalar) error {
	switch {
	case f.min != nil && v < *f.min, f.max != nil && v > *f.max, f.over != nil && v <= *f.over:
		unit := f.kind.unit()
		if unit != "" {
			unit = " " + unit
		}
		plain := field{min: f.min, max: f.max, over: f.over}
		return fmt.Errorf("must be %s%s, not %s", plain.rangeText(), unit, s)
	}
	return nil
}

func (f *field) allowed(v string) error {
	switch {
	case v == "" && f.noEmpty:
		return errors.New("must not be empty")
	case f.oneof != nil && !slices.Contains(f.oneof, v):
		return fmt.Errorf("must be one of %s, not %s", strings.Join(f.oneof, ", "), scalar{text: v})
	case v == "":
		return nil
	}
	return checkText(f.check, v)
}

// readList reads a list of texts, each of which follows the rule of the field.
func (f *field) readList(items []*document.Node) (any, error) {
	texts := []string{}
	for _, item := range items {
		if item.Shape != document.Single {
			return nil, errors.New("must be " + list.wanted())
		}
		if err := checkText(f.check, item.Text); err != nil {
			return nil, err
		}
		if slices.Contains(texts, item.Text) && f.check != "argument" {
			return nil, fmt.Errorf("names %s twice", written(item))
		}
		texts = append(texts, item.Text)
	}
	return texts, nil
}

// readCommand reads a command that is written as one text.
func (f *field) readCommand(text string) (any, error) {
	if err := checkText(f.check, text); err != nil {
		return nil, err
	}
	command, err := words.Split(text)
	if err != nil {
		return nil, err
	}
	return command, nil
}

// readVariables reads variables of a program. Its errors show no value.
func (f *field) readVariables(entries []*document.Node) (any, error) {
	all := Variables{}
	for _, e := range entries {
		switch {
		case e.Shape != document.Single:
			return nil, fmt.Errorf("%s must be text, not %s", e.Key, e.Shape)
		case !isVariable(e.Key):
			return nil, fmt.Errorf("%s is not the name of a variable: use letters, digits and underscores, the first no digit", scalar{text: e.Key})
		case strings.HasPrefix(e.Key, "BERTH_"):
			return nil, fmt.Errorf("%s is berth's own: berth sets it for the program", e.Key)
		case strings.ContainsRune(e.Text, 0):
			return nil, fmt.Errorf("%s must not hold the character 0", e.Key)
		}
		all[e.Key] = e.Text
	}
	return all, nil
}

// check refuses a request that cannot be made.
func (c Call) check() error {
	switch {
	case !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, c.Method):
		return fmt.Errorf("%s is not a method of a request: use POST, GET, PUT, PATCH or DELETE", scalar{text: c.Method})
	case c.Path == "":
		return errors.New("a request has no path: write it as {method: POST, path: /sleep}")
	case len(c.Body) > maxCallBody:
		return fmt.Errorf("the body of %s %s is longer than %d bytes", c.Method, c.Path, maxCallBody)
	}
	return checkText("urlpath", c.Path)
}

// maxCallBody is how long the body of a request to a server may be.
const maxCallBody = 64 << 10

func isVariable(v string) bool {
	return v != "" && len(v) <= 256 && (v[0] < '0' || v[0] > '9') && alphanumeric("x"+strings.ReplaceAll(v, "_", ""))
}

// isHost reports whether v can be the name of a host, with or without a port.
func isHost(v string) bool {
	name, port, found := strings.Cut(v, ":")
	if found && (port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "") {
		return false
	}
	return len(name) <= 253 && alphanumeric(strings.NewReplacer("-", "", ".", "").Replace(name)) && !strings.Contains(name, "..")
}

// isPrintable reports whether v has no spaces and no control characters.
func isPrintable(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError })
}

// isServiceName reports whether v can be the name of a service. Names have no dots,
// because dots separate the names of settings. The checks use no regular expressions,
// because every command of berth would pay for compiling them at its start.
func isServiceName(v string) bool {
	return len(v) <= 64 && alphanumeric(v[:min(1, len(v))]) && alphanumeric(strings.NewReplacer("-", "", "_", "").Replace(v))
}

func isUUID(v string) bool {
	return len(v) <= 128 && alphanumeric(v[:min(1, len(v))]) &&
		alphanumeric(strings.NewReplacer("-", "", "_", "", ":", "", "/", "").Replace(v))
}

func isIndex(v string) bool {
	return len(v) > 0 && len(v) <= 4 && strings.Trim(v, "0123456789") == ""
}

func isUserName(v string) bool {
	return v != "" && utf8.RuneCountInString(v) <= 256 && v[0] != '-' &&
		!strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(":,/", r) })
}

// isAccount reports whether v can be an entry of the section users.
func isAccount(v string) bool {
	v = withoutKind(v)
	return isUserName(v) && !strings.ContainsRune(v, '.')
}

// withoutKind returns the name of a token or a certificate, and other names as they are.
func withoutKind(v string) string {
	for _, kind := range []string{"token:", "cert:"} {
		if name, found := strings.CutPrefix(v, kind); found {
			return name
		}
	}
	return v
}

// isGroup reports whether v is written as people write a group.
func isGroup(v string) bool {
	return strings.HasPrefix(v, "@") || strings.HasPrefix(v, "%") || strings.HasPrefix(v, "group:")
}

func isMode(v string) bool {
	mode, err := strconv.ParseUint(v, 8, 32)
	return err == nil && len(v) <= 4 && mode&^0o666 == 0 && mode&0o600 == 0o600
}

func isAddress(v string) bool {
	u, err := url.Parse(v)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

func eventCodes() []string {
	var codes []string
	for _, c := range gpu.EventCodes() {
		codes = append(codes, string(c))
	}
	return codes
}

// alphanumeric reports whether v has only letters and digits, at least one.
func alphanumeric(v string) bool {
	return v != "" && !strings.ContainsFunc(v, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z')
	})
}

// isPodAccount reports whether v names a service account of a cluster.
func isPodAccount(v string) bool {
	namespace, name, found := strings.Cut(v, ":")
	return found && isHost(namespace) && isHost(name)
}

// checkText applies the rule that the check tag names.
func checkText(rule, v string) error {
	shown := scalar{text: v}
	switch {
	case (rule == "service" || rule == "hook") && !isServiceName(v):
		return fmt.Errorf("%s is not a name for a "+rule+": use up to 64 letters, digits, dashes and underscores, the first a letter or digit", shown)
	case rule == "uuid" && isIndex(v):
		return fmt.Errorf("%s is an index, which may mean another device after the next boot: use the UUID that berth status shows", shown)
	case rule == "device" && !isIndex(v) && !isUUID(v):
		return fmt.Errorf("%s is neither the index nor the UUID of a device: berth status shows them", shown)
	case rule == "uuid" && !isUUID(v):
		return fmt.Errorf("%s is not the UUID of a device: berth status shows them", shown)
	case rule == "account" && !isAccount(v), rule == "group" && (!isUserName(v) || strings.ContainsRune(v, '.')):
		return fmt.Errorf("%s cannot be a name here: use a name without dots, colons and spaces, or the number", shown)
	case rule == "podaccount" && !isPodAccount(v):
		return fmt.Errorf("%s is not a service account of a cluster: write NAMESPACE:NAME, such as berth-system:berth-dra", shown)
	case rule == "namespace" && (!isHost(v) || strings.ContainsAny(v, ".:")):
		return fmt.Errorf("%s is not the name of a namespace: use letters, digits and dashes", shown)
	case rule == "mode" && !isMode(v):
		return fmt.Errorf("%s is not a mode of a socket: use octal digits such as 0660; others may at most read and write", shown)
	case rule == "path" && !strings.HasPrefix(v, "/"):
		return fmt.Errorf("%s is not a whole path: begin it with /", shown)
	case rule == "user" && !isUserName(v):
		return fmt.Errorf("%s is not a user name", shown)
	case rule == "caller" && isGroup(v):
		return fmt.Errorf("%s is a group, and the front knows users by their names, not by their groups: name the users, or make a token for them (token:NAME)", shown)
	case rule == "caller" && !isUserName(withoutKind(v)):
		return fmt.Errorf("%s is not a user name: use a login name, a user id, token:NAME or cert:NAME", shown)
	case rule == "model" && (v == "" || utf8.RuneCountInString(v) > 256 || strings.ContainsFunc(v, unicode.IsControl)):
		return fmt.Errorf("%s is not the name of a model: use up to 256 characters", shown)
	case rule == "host" && !isHost(v):
		return fmt.Errorf("%s is not the name of a host: use one such as chat.example.com", shown)
	case (rule == "glob" || rule == "urlpath") && (!strings.HasPrefix(v, "/") || len(v) > 1024 || !isPrintable(v)):
		return fmt.Errorf("%s is not a path of a request: use one such as /health, without spaces", shown)
	case rule == "unit" && (strings.ContainsAny(v, "/ ") || strings.HasSuffix(v, ".slice")):
		return fmt.Errorf("%s is not the name of a service, a scope or a container: use one such as embedder.service", shown)
	case rule == "cgroup" && (!strings.HasPrefix(v, "/") || strings.Trim(v, "/") == ""):
		return fmt.Errorf("%s is not the path of a control group below the root: use one such as /system.slice/embedder.service", shown)
	case rule == "program" && strings.ContainsRune(v, '/'):
		return fmt.Errorf("%s is a path: use the name of the program alone", shown)
	case rule == "socket" && len(v) > 107:
		return fmt.Errorf("is %d bytes long, but the path of a Unix socket has at most 107", len(v))
	case rule == "token" && strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("must be printable ASCII without spaces")
	case rule == "address" && !isAddress(v): // not shown, because it may hold a key
		return errors.New("must be a web address such as https://example.com/events")
	case rule == "argument" && strings.ContainsRune(v, 0):
		return errors.New("must not hold the character 0")
	case rule == "code" && !slices.Contains(gpu.EventCodes(), gpu.EventCode(v)):
		return fmt.Errorf("%s is not the code of an event: %s", shown, words.Suggest(v, eventCodes(), "there is none like it; berth help event-codes lists all of them"))
	case rule == "currency" && (len(v) > 8 || !alphanumeric(v)):
		return fmt.Errorf("%s is not a currency: use a short name such as EUR", shown)
	case rule == "curve":
		if _, err := ParseCurve(v); err != nil {
			return err
		}
	case rule == "listen":
		return checkListen(v)
	}
	return nil
}

func checkListen(v string) error {
	_, port, ok := splitListen(v)
	if n, err := strconv.ParseUint(port, 10, 16); !ok || err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("must be an address such as 127.0.0.1:8000 or [::1]:8000, not %s", scalar{text: v})
	}
	return nil
}

// splitListen splits HOST:PORT; an IPv6 address is in brackets.
func splitListen(v string) (host, port string, ok bool) {
	i := strings.LastIndexByte(v, ':')
	if i < 0 {
		return "", "", false
	}
	host, port = v[:i], v[i+1:]
	if inside, found := strings.CutPrefix(host, "["); found {
		host, found = strings.CutSuffix(inside, "]")
		return host, port, found
	}
	return host, port, !strings.ContainsAny(host, ":]")
}

// loopback reports whether only this machine can reach an address.
func loopback(listen string) bool {
	host, _, _ := splitListen(listen)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
