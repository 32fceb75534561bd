package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// check refuses settings that are impossible only together: settings out of order, a
// listener open to others without TLS, a hook without a target. It ignores settings that
// were refused already, because their intended values are unknown.
func (s *Settings) check(root []field, bad map[string]bool) []Complaint {
	c := checker{settings: s, bad: bad}
	c.section(&scope{fields: root, at: reflect.ValueOf(s.Config)})
	c.exposure()
	c.front()
	c.programs(root)
	c.hooks()
	c.matches()
	c.limits()
	c.paths(root)
	return c.complaints
}

type checker struct {
	settings   *Settings
	bad        map[string]bool
	complaints complaints
}

// scope is a section, and the section around it that supplies what an entry of a map
// leaves out.
type scope struct {
	fields []field
	at     reflect.Value
	path   string // with a dot at the end, or empty
	around *scope
}

// operand is one side of a comparison.
type operand struct {
	scope *scope
	key   string
	v     float64
}

func (o operand) path() string { return o.scope.path + o.key }

func (s *scope) lookup(key string) (operand, bool) {
	if f := find(s.fields, key); f != nil && f.isSetting() {
		if v, ok := f.kind.load(s.at.FieldByIndex(f.index)); ok {
			n, isNumber := v.(float64)
			return operand{s, key, n}, isNumber
		}
	}
	if s.around == nil {
		return operand{}, false
	}
	return s.around.lookup(key)
}

func (c *checker) section(s *scope) {
	for _, f := range s.fields {
		at, path := s.at.FieldByIndex(f.index), s.path+f.key+"."
		switch {
		case f.isSetting() && f.above != "":
			c.order(s, f.above, f.key, func(low, high float64) bool { return low < high }, "above", "below")
		case f.isSetting() && f.from != "":
			c.order(s, f.from, f.key, func(low, high float64) bool { return low <= high }, "at least", "at most")
		case f.isSetting():
		case f.names == "":
			c.section(&scope{f.fields, at, path, nil})
		default:
			for _, name := range sortedNames(at) {
				c.section(&scope{f.fields, at.MapIndex(reflect.ValueOf(name)), path + name + ".", s})
			}
		}
	}
}

// order complains about the one of two settings that is to blame, if they are not in
// order.
func (c *checker) order(s *scope, lowKey, highKey string, right func(low, high float64) bool, over, under string) {
	low, ok := s.lookup(lowKey)
	high, ok2 := s.lookup(highKey)
	switch {
	case !ok || !ok2 || right(low.v, high.v):
		return
	case c.bad[low.path()] || c.bad[high.path()]:
		return
	case low.scope != s && high.scope != s: // both come from the section around, which compares them
		return
	}
	blamed, against, word := high, low, over
	if c.blame(low, s) > c.blame(high, s) {
		blamed, against, word = low, high, under
	}
	name := against.key
	if against.scope != blamed.scope {
		name = against.path()
	}
	c.complain(blamed.path(), fmt.Sprintf("%s is not %s %s, which is %s (%s)", formatNumber(blamed.v),
		word, name, formatNumber(against.v), c.settings.Source(against.path())))
}

// blame returns a larger number for the setting that is more likely the mistake: the one
// being tried now, then the one of the entry s, then the one from the stronger source.
func (c *checker) blame(o operand, s *scope) rank {
	r := c.settings.values[o.path()].source.rank
	weight := r
	if o.scope == s && s.around != nil {
		weight += inRequest
	}
	if r == inRequest {
		weight += 2 * inRequest
	}
	return weight
}

func (c *checker) complain(path, reason string) {
	from := c.settings.values[path].source
	c.complaints.add(Complaint{Source: from.name, Line: from.line, Field: path, Reason: reason})
}

// exposure refuses to serve other machines without TLS, and TLS files without the others
// that they need.
func (c *checker) exposure() {
	d := c.settings.Config.Daemon
	const listen, cert, key, authorities = "daemon.listen", "daemon.tls_cert", "daemon.tls_key", "daemon.tls_client_ca"
	switch {
	case c.bad[listen] || c.bad[cert] || c.bad[key] || c.bad[authorities]:
		return
	case d.TLSCert != "" && d.TLSKey == "":
		c.complain(cert, "needs its key: set "+key)
	case d.TLSCert == "" && d.TLSKey != "":
		c.complain(key, "needs its certificate: set "+cert)
	case d.TLSCert == "" && d.TLSClientCA != "":
		c.complain(authorities, "needs TLS: set "+cert+" and "+key)
	case d.Listen != "" && !loopback(d.Listen) && d.TLSCert == "" && d.Insecure != "true" && !c.bad["daemon.insecure"]:
		c.complain(listen, fmt.Sprintf("%s can be reached from other machines, and without TLS everybody on the way can read tokens: set %s and %s, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway",
			d.Listen, cert, key))
	}
	if d.Token != "" && d.TokenFile != "" && !c.bad["daemon.token"] && !c.bad["daemon.token_file"] {
		c.complain("daemon.token_file", "is set beside daemon.token: set one of them")
	}
}

// front refuses to take requests of other machines without TLS, and TLS files without the
// other one.
func (c *checker) front() {
	f := c.settings.Config.Front
	const listen, cert, key = "front.listen", "front.tls_cert", "front.tls_key"
	switch {
	case c.bad[listen] || c.bad[cert] || c.bad[key]:
	case f.TLSCert != "" && f.TLSKey == "":
		c.complain(cert, "needs its key: set "+key)
	case f.TLSCert == "" && f.TLSKey != "":
		c.complain(key, "needs its certificate: set "+cert)
	case f.Listen != "" && !loopback(f.Listen) && f.TLSCert == "" && c.settings.Config.Daemon.Insecure != "true" && !c.bad["daemon.insecure"]:
		c.complain(listen, fmt.Sprintf("%s can be reached from other machines, and without TLS everybody on the way can read tokens: set %s and %s, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway",
			f.Listen, cert, key))
	case f.Listen != "" && f.Listen == c.settings.Config.Daemon.Listen && !strings.HasSuffix(f.Listen, ":0"): // each gets a port of its own then
		c.complain(listen, "is the address of the daemon (daemon.listen): the front needs one of its own")
	}
}

// programs refuses settings of programs that contradict each other, and services that a
// request could not tell apart.
func (c *checker) programs(root []field) {
	all := c.settings.Config.Services
	models, hosts, ports := map[string]string{}, map[string]string{}, map[int]string{}
	for name, s := range all {
		if s.Runs() {
			models[name] = name
		}
	}
	_, own, _ := splitListen(c.settings.Config.Front.Listen)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, path := all[name], "services."+name+"."
		if c.bad[path+"command"] {
			continue
		}
		if !s.Runs() {
			c.withoutProgram(root, path)
			continue
		}
		c.program(&s.Program, path)
		c.unique(path+"models", "the model", s.Models, models, name)
		c.unique(path+"hosts", "the host", s.Hosts, hosts, name)
		if port, fixed := s.Port.Get(); fixed && !c.bad[path+"port"] {
			if other, taken := ports[port]; taken {
				c.complain(path+"port", fmt.Sprintf("%d is also the port of the service %s: give one of them another, or leave it out", port, other))
			} else if strconv.Itoa(port) == own {
				c.complain(path+"port", fmt.Sprintf("%d is the port of the front (front.listen): give the service another, or leave it out", port))
			}
			ports[port] = name
		}
	}
}

// withoutProgram refuses settings of a program for a service that has none.
func (c *checker) withoutProgram(root []field, path string) {
	t := reflect.TypeFor[Program]()
	for _, f := range find(root, "services").fields {
		if _, ofProgram := t.FieldByName(f.goName); !ofProgram {
			continue
		}
		for _, set := range slices.Sorted(maps.Keys(c.settings.values)) {
			if at := path + f.key; set == at || strings.HasPrefix(set, at+".") {
				c.complain(set, "is for a program that berth runs, and the service has none: set "+path+"command too")
			}
		}
	}
}

// program refuses settings of one program that contradict each other.
func (c *checker) program(p *Program, path string) {
	var ways []string
	for key, set := range map[string]bool{"ready.path": p.Ready.Path != "", "ready.tcp": p.Ready.TCP == "true", "ready.log": p.Ready.Log != ""} {
		if set {
			ways = append(ways, path+key)
		}
	}
	slices.Sort(ways)
	switch {
	case p.Command[0] == "":
		c.complain(path+"command", "must begin with the name of a program")
	case c.bad[path+"sleep"] || c.bad[path+"wake"]:
	case len(ways) > 1:
		c.complain(ways[1], "is set beside "+ways[0]+": a server shows in one way that it is ready")
	case len(p.Sleep) > 0 && len(p.Wake) == 0:
		c.complain(path+"sleep", "needs the requests that wake the server: set "+path+"wake")
	case len(p.Sleep) == 0 && len(p.Wake) > 0:
		c.complain(path+"wake", "needs the requests that make the server sleep: set "+path+"sleep")
	case p.Away == "sleep" && len(p.Sleep) == 0:
		c.complain(path+"away", "is sleep, and the server cannot: set "+path+"sleep and "+path+"wake, or another way")
	}
}

// unique refuses names of models or hosts that mean two services.
func (c *checker) unique(path, what string, names []string, seen map[string]string, service string) {
	for _, name := range names {
		other, taken := seen[name]
		if taken && other != service && !c.bad[path] {
			c.complain(path, fmt.Sprintf("%s %s means the service %s already: a request could not tell which of them it is for", what, scalar{text: name}, other))
		}
		seen[name] = service
	}
}

// hooks refuses hooks without exactly one target, and settings that do not suit the
// target.
func (c *checker) hooks() {
	for _, name := range slices.Sorted(maps.Keys(c.settings.Config.Hooks)) {
		h, path := c.settings.Config.Hooks[name], "hooks."+name
		switch {
		case c.bad[path+".url"] || c.bad[path+".command"]:
		case h.URL == "" && len(h.Command) == 0:
			c.complain(path, "tells nobody: give it a url or a command")
		case h.URL != "" && len(h.Command) > 0:
			c.complain(path, "has a url and a command: make two hooks of it")
		case h.URL == "" && h.Command[0] == "":
			c.complain(path+".command", "must begin with the name of a program")
		case h.URL == "" && h.Secret != "":
			c.complain(path+".secret", "is for a url: what a command is told is not signed")
		}
	}
}

// matches refuses a match that fits every process of a user.
func (c *checker) matches() {
	for _, name := range slices.Sorted(maps.Keys(c.settings.Config.Services)) {
		m, path := c.settings.Config.Services[name].Match, "services."+name+".match."
		if m.User != "" && m == (Match{User: m.User}) && !c.bad[path+"unit"] && !c.bad[path+"cgroup"] && !c.bad[path+"program"] {
			c.complain(path+"user", "fits every program of the user: give a unit, a cgroup or a program too")
		}
	}
}

// limits refuses a default service for which requests would be refused.
func (c *checker) limits() {
	all := c.settings.Config
	if all.UnknownServices != "refuse" {
		return
	}
	known := map[string]bool{"": true}
	for name := range all.Services {
		known[words.Service(name)] = true
	}
	look := func(path, service string) {
		if path += ".service"; !known[words.Service(service)] && !c.bad[path] {
			c.complain(path, "names a service that is not configured, and unknown_services is refuse: every request that names none would be refused")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all.Users)) {
		look("users."+name, all.Users[name].Service)
	}
	for _, name := range slices.Sorted(maps.Keys(all.Groups)) {
		look("groups."+name, all.Groups[name].Service)
	}
}

// paths checks the defaults from Paths that nothing stronger replaces.
func (c *checker) paths(root []field) {
	for _, key := range []string{"state_dir", "socket"} {
		v, known := c.settings.values["daemon."+key]
		if !known || v.source.rank != byDefault {
			continue
		}
		path := v.v.(string)
		if path == "" {
			c.complain("daemon."+key, "has no default, because the environment names no home: set it")
		} else if err := find(find(root, "daemon").fields, key).allowed(path); err != nil {
			c.complain("daemon."+key, fmt.Sprintf("the default %s %v: set a shorter one", path, err))
		}
	}
}
