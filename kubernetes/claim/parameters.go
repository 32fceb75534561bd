package claim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// Parameters are the settings of the lease from a class and a claim, in the kind Lease.
type Parameters struct {
	Service  string
	Claimed  bool     // whether the claim names the service, and not its class
	Priority *int     // nil means that of the service. From the class only
	Enforce  string   // auto, framework, watchdog or none; empty means auto
	Caps     []string // cupy, jax, torch; nil means cupy and jax
	Optimize []string // what berth may do to win memory back: trim, shrink, park; nothing if empty
	Socket   bool     // whether the container can talk to the daemon. From the class only
}

var (
	fields     = []string{"service", "priority", "enforce", "caps", "optimize", "socket"}
	enforcings = []string{auto, framework, watchdog, none}
	libraries  = []string{"cupy", "jax", "torch"}
	optimizing = []string{"trim", "shrink", "park"}
)

const (
	maxPriority   = 1_000_000
	maxParameters = 10 << 10 // bytes; the API server accepts no more
)

// enforcement returns enforce and caps of the request.
func (p Parameters) enforcement(alone bool) (enforce string, caps []string) {
	caps = p.libraries()
	switch enforce = p.Enforce; {
	case enforce == none || enforce == watchdog:
		return enforce, nil
	case !alone || len(caps) == 0:
		return watchdog, nil
	case enforce == "":
		return auto, caps
	}
	return enforce, caps
}

// libraries returns the libraries that limit themselves.
func (p Parameters) libraries() []string {
	if p.Caps == nil {
		return []string{"cupy", "jax"}
	}
	return p.Caps
}

// parametersOf returns the parameters for the requests of a claim. One claim is one
// lease, so they must be the same for all of them.
func parametersOf(c *resourcev1.ResourceClaim, found []resourcev1.DeviceRequestAllocationResult) (Parameters, error) {
	var first Parameters
	for i, r := range found {
		p, err := parametersFor(c.Status.Allocation.Devices.Config, r.Request)
		if err != nil {
			return Parameters{}, err
		}
		switch {
		case i == 0:
			first = p
		case !first.equal(p):
			return Parameters{}, refuse(BadParameters, "requests %s and %s of the claim have different parameters; a claim is one lease: use two claims", quote(found[0].Request), quote(r.Request))
		}
	}
	return first, nil
}

func (p Parameters) equal(q Parameters) bool {
	same := p.Priority == nil && q.Priority == nil || p.Priority != nil && q.Priority != nil && *p.Priority == *q.Priority
	return same && p.Service == q.Service && p.Claimed == q.Claimed && p.Enforce == q.Enforce && p.Socket == q.Socket &&
		(p.Caps == nil) == (q.Caps == nil) && slices.Equal(p.Caps, q.Caps) && slices.Equal(p.Optimize, q.Optimize)
}

// parametersFor returns the parameters for one request: those of the class, then those of
// the claim, each in its order.
func parametersFor(configs []resourcev1.DeviceAllocationConfiguration, request string) (Parameters, error) {
	var p Parameters
	for _, source := range []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClass, resourcev1.AllocationConfigSourceClaim} {
		class := p
		for _, c := range configs {
			if c.Source != source || c.Opaque == nil || c.Opaque.Driver != words.Driver || !concerns(c.Requests, request) {
				continue
			}
			said, err := decode(c.Opaque.Parameters.Raw)
			if err == nil && source == resourcev1.AllocationConfigSourceClaim {
				err = said.allowed(class)
			}
			if err == nil {
				p, err = said.over(p)
				p.Claimed = source == resourcev1.AllocationConfigSourceClaim && p.Service != class.Service
			}
			if err != nil {
				return Parameters{}, refuse(BadParameters, "the parameters of the %s: %s", where(source), err)
			}
		}
	}
	return p, nil
}

func where(source resourcev1.AllocationConfigSource) string {
	if source == resourcev1.AllocationConfigSourceClass {
		return "device class"
	}
	return "claim"
}

// concerns reports whether a configuration is for a request. The name of a request with
// alternatives stands for each of them.
func concerns(requests []string, request string) bool {
	main, _, _ := strings.Cut(request, "/")
	return len(requests) == 0 || slices.Contains(requests, request) || slices.Contains(requests, main)
}

// said is one set of parameters. A nil field is not set.
type said struct {
	service, enforce *string
	priority         *int
	caps, optimize   []string
	socket           *bool
}

// allowed returns an error if a claim sets something that only its class may set.
func (s said) allowed(class Parameters) error {
	switch {
	case s.priority != nil:
		return errors.New("priority: only a device class can set it")
	case s.socket != nil:
		return errors.New("socket: only a device class can set it")
	case s.service != nil && class.Service != "" && *s.service != class.Service:
		return fmt.Errorf("service: the device class sets it to %s, and a claim cannot change that", quote(class.Service))
	}
	return s.noWeaker(class)
}

// strength orders the values of enforce: a later one holds a program to no less.
var strength = []string{none, watchdog, auto, framework}

// noWeaker returns an error if a claim takes away a limit that its class sets: by another
// enforce, or by libraries that it leaves out. A class that names libraries only means auto.
func (s said) noWeaker(class Parameters) error {
	set := class.Enforce
	if set == "" && len(class.Caps) > 0 {
		set = auto
	}
	if s.enforce != nil && slices.Index(strength, *s.enforce) < slices.Index(strength, set) {
		return fmt.Errorf("enforce: the device class sets it to %s, and a claim cannot turn that off; leave it out", set)
	}
	if s.caps == nil || set != auto && set != framework {
		return nil
	}
	for _, library := range class.libraries() {
		if !slices.Contains(s.caps, library) {
			return fmt.Errorf("caps: the device class limits %s, and a claim cannot turn that off; name them too, or leave caps out", strings.Join(class.libraries(), ", "))
		}
	}
	return nil
}

// over returns p with the fields of s in place of its own.
func (s said) over(p Parameters) (Parameters, error) {
	if s.service != nil {
		p.Service = *s.service
	}
	if s.enforce != nil {
		p.Enforce = *s.enforce
	}
	if s.priority != nil {
		p.Priority = s.priority
	}
	if s.caps != nil {
		p.Caps = s.caps
	}
	if s.optimize != nil {
		p.Optimize = s.optimize
	}
	if s.socket != nil {
		p.Socket = *s.socket
	}
	if p.Enforce == framework && p.Caps != nil && len(p.Caps) == 0 {
		return p, errors.New("enforce: framework needs a library in caps: " + strings.Join(libraries, ", "))
	}
	return p, nil
}

// decode reads one set of parameters. It refuses unknown fields, duplicate fields, and
// names that differ in case.
func decode(raw []byte) (said, error) {
	values, err := object(raw)
	if err != nil {
		return said{}, err
	}
	var s said
	var version, kind string
	for _, f := range values {
		switch f.name {
		case "apiVersion":
			version, err = text(f.value)
		case "kind":
			kind, err = text(f.value)
		case "service":
			s.service, err = service(f.value)
		case "priority":
			s.priority, err = priority(f.value)
		case "enforce":
			s.enforce, err = enforce(f.value)
		case "caps":
			s.caps, err = names(f.value, "library", libraries)
		case "optimize":
			s.optimize, err = names(f.value, "way to win memory back", optimizing)
		case "socket":
			s.socket, err = flag(f.value)
		default:
			return said{}, fmt.Errorf("there is no field %s; there are %s", quote(f.name), strings.Join(fields, ", "))
		}
		if err != nil {
			return said{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if version != words.ParametersVersion || kind != words.ParametersKind {
		return said{}, fmt.Errorf("they are apiVersion %s, kind %s; this driver reads apiVersion %s, kind %s", quote(version), quote(kind), words.ParametersVersion, words.ParametersKind)
	}
	return s, nil
}

type field struct {
	name  string
	value json.RawMessage
}

// object returns the fields of a JSON object in their order.
func object(raw []byte) ([]field, error) {
	if len(raw) > maxParameters {
		return nil, fmt.Errorf("they have %d bytes; at most %d are allowed", len(raw), maxParameters)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("they are not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("they are not a JSON object")
	}
	var list []field
	for d.More() {
		key, err := d.Token()
		name, is := key.(string)
		if err != nil || !is {
			return nil, errors.New("they are not a JSON object")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("they are not a JSON object")
		}
		if slices.ContainsFunc(list, func(f field) bool { return f.name == name }) {
			return nil, fmt.Errorf("the field %s is there twice", quote(name))
		}
		list = append(list, field{name, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("they are not a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return list, nil
}

func text(value json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", fmt.Errorf("it is %s; it must be a text", quote(string(value)))
	}
	return *s, nil
}

func service(value json.RawMessage) (*string, error) {
	s, err := text(value)
	switch {
	case err != nil:
		return nil, err
	case s == "" || strings.TrimSpace(s) != s || gpu.Printable(s, gpu.Whole) != s || utf8.RuneCountInString(s) > 128:
		return nil, fmt.Errorf("%s is not the name of a service: 1 to 128 printable characters, without a space at either end", quote(s))
	}
	return &s, nil
}

func priority(value json.RawMessage) (*int, error) {
	var n *int
	if err := json.Unmarshal(value, &n); err != nil || n == nil || *n < -maxPriority || *n > maxPriority {
		return nil, fmt.Errorf("it is %s; it must be a whole number from %d to %d", quote(string(value)), -maxPriority, maxPriority)
	}
	return n, nil
}

func enforce(value json.RawMessage) (*string, error) {
	s, err := text(value)
	switch {
	case err != nil:
		return nil, err
	case s == "mps":
		return nil, errors.New("mps is not possible for pods, because one server would hold the memory of all of them; use auto")
	case !slices.Contains(enforcings, s):
		return nil, fmt.Errorf("there is no %s; there are %s", quote(s), strings.Join(enforcings, ", "))
	}
	return &s, nil
}

// names reads a list of some of the names that there are.
func names(value json.RawMessage, what string, all []string) ([]string, error) {
	var given []string
	if err := json.Unmarshal(value, &given); err != nil || given == nil {
		return nil, fmt.Errorf("it is %s; it must be a list of %s", quote(string(value)), strings.Join(all, ", "))
	}
	list := []string{}
	for _, name := range given {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no %s %s; there are %s", what, quote(name), strings.Join(all, ", "))
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

func flag(value json.RawMessage) (*bool, error) {
	var b *bool
	if err := json.Unmarshal(value, &b); err != nil || b == nil {
		return nil, fmt.Errorf("it is %s; it must be true or false", quote(string(value)))
	}
	return b, nil
}
