// Package llamaswap turns a configuration of llama-swap into settings of berth, and says
// what of it has no counterpart.
//
// Pure: no clock, no I/O.
package llamaswap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// MostBytes is the size of the largest file that Import reads.
const MostBytes = 1 << 20

// Note says what became of a part of the configuration that berth does not have, or has in
// another form.
type Note struct {
	Line int    // of the file; 0 for the file as a whole
	Name string // of the setting, as in models.qwen.ttl
	Text string
}

func (n Note) String() string {
	where := ""
	if n.Line > 0 {
		where = strconv.Itoa(n.Line) + ": "
	}
	if n.Name != "" {
		where += n.Name + ": "
	}
	return where + n.Text
}

// Import turns a configuration of llama-swap into sections of berth.yaml. Variable looks
// up variables of the environment, which the configuration may name. The programs run as
// user, unless that is empty.
func Import(text []byte, variable func(string) (string, bool), user string) (settings string, notes []Note, err error) {
	root, problem := document.Parse(text, document.Format{Noun: "the file", Bytes: MostBytes})
	if problem != nil {
		where := ""
		if problem.Line > 0 {
			where = fmt.Sprintf("line %d: ", problem.Line)
		}
		return "", nil, fmt.Errorf("%s%s: %s", where, problem.Reason, problem.Remedy)
	}
	i := &importer{variable: variable, user: user, macros: map[string]string{}, names: map[string]string{}, taken: map[string]bool{}, ports: map[int]bool{}}
	i.file(root)
	if len(i.services) == 0 {
		return "", i.notes, errors.New("there is no model that berth could run: llama-swap has them under models, each with a cmd")
	}
	slices.SortStableFunc(i.notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return i.write(), i.notes, nil
}

// importer is a configuration that is being read.
type importer struct {
	variable func(string) (string, bool)
	user     string

	macros   map[string]string // of the whole file
	ttl      float64           // globalTTL
	timeout  float64           // healthCheckTimeout; 0 if it is not set
	services []*service
	names    map[string]string // names of services by the ids of their models
	taken    map[string]bool   // names of services and models
	ports    map[int]bool      // of services
	notes    []Note
}

// service is a section of berth.yaml.
type service struct {
	name   string
	models []string
	lines  []string // its other settings
}

// set sets a setting. The last value counts.
func (s *service) set(key, value string) {
	line := key + ": " + value
	if at := slices.IndexFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, key+": ") }); at >= 0 {
		s.lines[at] = line
		return
	}
	s.lines = append(s.lines, line)
}

// note says something about a node.
func (i *importer) note(n *document.Node, format string, args ...any) {
	i.notes = append(i.notes, Note{Line: cmp.Or(n.KeyLine, n.Line), Name: n.Name(), Text: fmt.Sprintf(format, args...)})
}

// report turns a problem of the file into a note.
func (i *importer) report(p document.Problem) bool {
	n := Note{Line: p.Line, Text: p.Reason}
	if p.Node != nil {
		n.Name = p.Node.Name()
	}
	if p.Remedy != "" {
		n.Text += ": " + p.Remedy
	}
	i.notes = append(i.notes, n)
	return len(i.notes) < mostNotes
}

// mostNotes is how many notes a file can make that is no configuration.
const mostNotes = 1000

// entries returns the usable entries of a section, with what is wrong with the others told.
func (i *importer) entries(n *document.Node) []*document.Node {
	if n == nil || n.Shape == document.Nothing {
		return nil
	}
	return slices.Collect(n.Entries(document.Keys{}, i.report))
}

// words of settings that need no more than a sentence.
var (
	ofFile = map[string]string{
		"logLevel":             "the daemon has a log of its own, and berth logs NAME shows that of a server",
		"logTimeFormat":        "the log of a server stands as the server writes it",
		"logToStdout":          "berth logs NAME shows the log of a server",
		"metricsMaxInMemory":   "berth keeps what it measures: see past in berth help configuration",
		"store":                "berth keeps what it measures: see past in berth help configuration",
		"captureBuffer":        "berth keeps no request and no answer",
		"ui":                   "berth open shows a page of its own",
		"performance":          "berth always measures",
		"startPort":            "berth chooses ports that are free",
		"sendLoadingState":     "nothing is answered before the server answers, so that a failed start is an error of HTTP",
		"includeAliasesInList": "the front lists all names of models, but for patterns",
		"unloadTimeout":        "set optimization.deallocation_timeout, which holds for all programs",
		"apiKeys":              "callers on this machine need no key; for others, make tokens: berth token create NAME --role user",
		"profiles":             "berth has none: put the names that shall mean a model into its models",
		"selectors":            "berth has none: put the names that shall mean a model into its models",
		"peers":                "berth passes requests to programs of this machine alone",
	}
	ofModel = map[string]string{
		"name":             "the front lists models by their names in requests",
		"description":      "the front lists models by their names in requests",
		"metadata":         "the front lists models by their names in requests",
		"capabilities":     "the front lists models by their names in requests",
		"filters":          "the front passes requests on as they are: set defaults where the server is started",
		"cmdStop":          "berth sends SIGTERM to all processes of the server, and SIGKILL after optimization.deallocation_timeout",
		"unloadTimeout":    "set optimization.deallocation_timeout, which holds for all programs",
		"sendLoadingState": ofFile["sendLoadingState"],
		"timeouts":         "the front waits for the server as long as the caller does",
	}
)

func (i *importer) file(root *document.Node) {
	all := i.entries(root)
	for _, e := range all { // what the models need
		switch e.Key {
		case "macros":
			i.readMacros(e, i.macros)
		case "globalTTL":
			i.ttl, _ = i.number(e)
		case "healthCheckTimeout":
			i.timeout, _ = i.number(e)
		}
	}
	for _, e := range all {
		if e.Key == "models" {
			models := i.entries(e)
			i.name(models)
			for _, m := range models {
				i.model(m)
			}
		}
	}
	for _, e := range all {
		switch e.Key {
		case "macros", "globalTTL", "healthCheckTimeout", "models":
		case "hooks":
			i.hooks(e)
		case "groups":
			i.groups(e)
		case "matrix":
			i.matrix(e)
		case "routing":
			i.routing(e)
		case "upstream":
			for _, u := range i.entries(e) {
				i.note(u, "write paths with * into ignore of a service; sockets never bring one")
			}
		default:
			i.note(e, "%s", cmp.Or(ofFile[e.Key], "berth does not know it"))
		}
	}
}

// number returns the number in a node.
func (i *importer) number(n *document.Node) (float64, bool) {
	v, ok := n.Number()
	if !ok || v < 0 {
		i.note(n, "is not a number of 0 or more, and is left out")
		return 0, false
	}
	return v, true
}

// readMacros adds the macros of a section. Each may use those before it.
func (i *importer) readMacros(n *document.Node, macros map[string]string) {
	for _, e := range i.entries(n) {
		if e.Shape != document.Single {
			i.note(e, "is not a single value, and is left out")
			continue
		}
		macros[e.Key] = i.expand(e, e.Text, macros)
	}
}

// mostExpanded is how long a value can get by macros.
const mostExpanded = 64 << 10

// expand puts macros and variables of the environment into a text. ${PORT} stays: berth
// has the same word.
func (i *importer) expand(at *document.Node, text string, macros map[string]string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			if found {
				b.WriteString("${" + rest)
			}
			break
		}
		text = after
		value, known := macros[name]
		if env, isEnv := strings.CutPrefix(name, "env."); isEnv {
			if value, known = i.variable(env); !known {
				i.note(at, "the variable %s is not set here: write its value in its place", env)
			}
		} else if !known && name != "PORT" && name != "MODEL_ID" {
			i.note(at, "there is no macro %s", name)
		}
		if !known {
			value = "${" + name + "}"
		}
		b.WriteString(value)
		if b.Len() > mostExpanded {
			i.note(at, "is longer than %d KiB with its macros, and is cut", mostExpanded>>10)
			break
		}
	}
	return words.Cut(b.String(), mostExpanded)
}

func (i *importer) model(m *document.Node) {
	if m.Shape != document.Section {
		i.note(m, "is not a model: a model is a section with a cmd")
		return
	}
	entries := i.entries(m)
	macros := map[string]string{}
	for name, value := range i.macros {
		macros[name] = strings.ReplaceAll(value, "${MODEL_ID}", m.Key) // which is known only now
	}
	macros["MODEL_ID"] = m.Key
	for _, e := range entries {
		if e.Key == "macros" {
			i.readMacros(e, macros)
		}
	}
	cmd := m.Entry("cmd")
	if cmd == nil || cmd.Shape != document.Single {
		i.note(m, "has no cmd, and is left out")
		return
	}
	line := i.expand(cmd, cmd.Text, macros)
	command, err := words.Split(line)
	if err != nil {
		i.note(cmd, "%v; the model is left out", err)
		return
	}
	s := &service{name: i.names[m.Key]}
	if s.name == "" || command[0] == "" {
		i.note(m, "cannot be a service, and is left out")
		return
	}
	i.services = append(i.services, s)
	if s.name != m.Key {
		s.models = append(s.models, m.Key)
		i.note(m, "the service is called %s; requests name the model as before", s.name)
	}
	s.set("command", flow(command))
	if engine := container(command); engine != "" {
		i.note(cmd, "%s starts a container, whose port belongs to the engine: the front sends nothing to a port of another user. Run the server itself, or use an engine without root", engine)
	}
	if i.user != "" {
		s.set("user", quote(i.user))
	}
	i.settings(s, m, entries, macros, line)
}

// settings reads what a model has beside its cmd, in the order in which berth documents
// its settings.
func (i *importer) settings(s *service, m *document.Node, entries []*document.Node, macros map[string]string, line string) {
	if e := m.Entry("env"); e != nil {
		i.environment(s, e, macros)
	}
	if e := m.Entry("proxy"); e != nil && e.Shape == document.Single {
		i.proxy(s, e, macros, line)
	} else if !strings.Contains(line, "${PORT}") {
		i.note(m, "its cmd has no ${PORT}, and it has no proxy: write ${PORT} where the server takes its port")
	}
	ready := "/health"
	if e := m.Entry("checkEndpoint"); e != nil && e.Text != "" {
		ready = i.expand(e, e.Text, macros)
	}
	switch {
	case ready == "none":
		s.set("ready", "{tcp: true}")
	case strings.HasPrefix(ready, "/") && len(ready) <= 1024 && !strings.ContainsFunc(ready, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }):
		s.set("ready", "{path: "+quote(ready)+"}")
	default:
		i.note(m.Entry("checkEndpoint"), "is not a path, and is left out")
	}
	if i.timeout > 0 {
		s.set("start_timeout", seconds(max(i.timeout, 15)))
	}
	ttl := i.ttl
	if e := m.Entry("ttl"); e != nil && e.Text != "-1" {
		if v, ok := i.number(e); ok {
			ttl = v
		}
	}
	if ttl > 0 {
		s.set("idle_after", seconds(ttl))
	}
	if e := m.Entry("concurrencyLimit"); e != nil {
		if v, ok := i.number(e); ok && v >= 1 {
			s.set("max_open", strconv.FormatFloat(min(v, 100000), 'f', 0, 64))
		}
	}
	for _, e := range entries {
		switch e.Key {
		case "cmd", "macros", "env", "proxy", "checkEndpoint", "ttl", "concurrencyLimit":
		case "aliases":
			i.aliases(s, m, e, macros)
		case "compat": // sockets never bring a service
		case "useModelName":
			i.note(e, "the front passes the model on as the request names it: let the server answer to %s (llama.cpp: --alias, vLLM: --served-model-name)", quote(m.Key))
		case "unlisted":
			if e.Text == "true" {
				i.note(e, "the front lists every service that the caller may use; users of a service limits who may")
			}
		default:
			i.note(e, "%s", cmp.Or(ofModel[e.Key], "berth does not know it"))
		}
	}
	if len(s.models) > 0 {
		s.set("models", flow(s.models))
	}
}

// aliases adds other names of a model. The front lists the names of models, so its own
// comes with them.
func (i *importer) aliases(s *service, m, e *document.Node, macros map[string]string) {
	if len(s.models) == 0 && len(e.Items) > 0 {
		s.models = append(s.models, m.Key)
	}
	for alias := range e.All("[name, name]", i.report) {
		name := i.expand(alias, alias.Text, macros)
		if !usable(name) {
			i.note(alias, "cannot be the name of a model, and is left out")
			continue
		}
		if i.taken[name] {
			i.note(alias, "means another model already, and is left out")
			continue
		}
		i.taken[name] = true
		s.models = append(s.models, name)
	}
}

func (i *importer) environment(s *service, e *document.Node, macros map[string]string) {
	values := map[string]string{}
	for item := range e.All("[NAME=value]", i.report) {
		name, value, ok := strings.Cut(i.expand(item, item.Text, macros), "=")
		switch {
		case !ok || name == "" || strings.Trim(name, variableLetters) != "" || name[0] <= '9':
			i.note(item, "is not NAME=value, and is left out")
		case strings.HasPrefix(name, "BERTH_"):
			i.note(item, "berth sets the variables of this name itself")
		case name == "CUDA_VISIBLE_DEVICES":
			if count := strings.Count(value, ",") + 1; count > 1 {
				s.set("gpus", strconv.Itoa(count))
			}
			i.note(item, "berth chooses devices and sets this variable itself; preferred_device names the one that it tries first")
		default:
			values[name] = value
		}
	}
	if len(values) > 0 {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			pairs = append(pairs, quote(name)+": "+quote(values[name]))
		}
		s.set("env", "{"+strings.Join(pairs, ", ")+"}")
	}
}

const variableLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// proxy reads where the server listens.
func (i *importer) proxy(s *service, e *document.Node, macros map[string]string, line string) {
	at, err := url.Parse(strings.ReplaceAll(i.expand(e, e.Text, macros), "${PORT}", "1024"))
	if err != nil || at.Host == "" {
		i.note(e, "is not an address, and is left out")
		return
	}
	host := at.Hostname()
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		i.note(e, "berth passes requests to programs of this machine alone, at 127.0.0.1")
	}
	if at.Scheme == "https" || strings.Trim(at.Path, "/") != "" {
		i.note(e, "the front asks the server over plain HTTP, with the path that the caller asked for")
	}
	if strings.Contains(e.Text, "${PORT}") || strings.Contains(line, "${PORT}") {
		return
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil || port < 1024 || port > 65535 {
		i.note(e, "has no port from 1024 to 65535: write ${PORT} where the server takes its port")
		return
	}
	if i.ports[port] {
		i.note(e, "is the port of another model: write ${PORT} where the server takes its port")
		return
	}
	i.ports[port] = true
	s.set("port", strconv.Itoa(port))
}

func (i *importer) hooks(n *document.Node) {
	start := n.Entry("on_startup")
	if start == nil {
		return
	}
	if load := start.Entry("preload"); load != nil {
		for item := range load.All("[name]", i.report) {
			if s := i.find(item.Text); s != nil {
				s.set("start", "always")
			} else {
				i.note(item, "there is no such model")
			}
		}
	}
}

// groups reads which models stay. Which of them run together, memory decides.
func (i *importer) groups(n *document.Node) {
	for _, g := range i.entries(n) {
		stays := false
		if e := g.Entry("persistent"); e != nil {
			stays = e.Text == "true"
		}
		members := g.Entry("members")
		if !stays || members == nil {
			i.note(g, "needs no counterpart: berth counts memory, and models that fit run together")
			continue
		}
		for item := range members.All("[name]", i.report) {
			if s := i.find(item.Text); s != nil {
				s.set("keep", "true")
			} else {
				i.note(item, "there is no such model")
			}
		}
	}
}

func (i *importer) matrix(n *document.Node) {
	i.note(n, "needs no counterpart: berth counts memory, and models that fit run together; what a switch costs it measures")
}

func (i *importer) routing(n *document.Node) {
	for _, e := range i.entries(n) {
		switch settings := e.Entry("settings"); {
		case settings == nil:
		case e.Key == "router":
			if groups := settings.Entry("groups"); groups != nil {
				i.groups(groups)
			}
			if matrix := settings.Entry("matrix"); matrix != nil {
				i.matrix(matrix)
			}
		case e.Key == "scheduler":
			if fifo := settings.Entry("fifo"); fifo != nil {
				i.priorities(fifo.Entry("priority"))
			}
		}
	}
}

func (i *importer) priorities(n *document.Node) {
	for _, e := range i.entries(n) {
		v, ok := e.Number()
		s := i.find(e.Key)
		if !ok || s == nil {
			i.note(e, "is not the priority of a model of this file")
			continue
		}
		s.set("priority", strconv.FormatFloat(min(max(v, -1000), 1000), 'f', 0, 64))
	}
}

func (i *importer) find(model string) *service {
	for _, s := range i.services {
		if s.name == i.names[model] {
			return s
		}
	}
	return nil
}

// name names the services. A model whose id can be the name of a service has that name;
// others get one that is like it.
func (i *importer) name(models []*document.Node) {
	for _, m := range models {
		if usable(m.Key) && plain(m.Key) == m.Key && !i.taken[words.Service(m.Key)] {
			i.names[m.Key] = m.Key
			i.taken[m.Key], i.taken[words.Service(m.Key)] = true, true
		}
	}
	for _, m := range models {
		if i.names[m.Key] != "" || !usable(m.Key) || plain(m.Key) == "" || i.taken[m.Key] {
			continue
		}
		free := plain(m.Key)
		for n := 2; i.taken[words.Service(free)]; n++ {
			free = plain(m.Key) + "-" + strconv.Itoa(n)
		}
		i.names[m.Key] = free
		i.taken[m.Key], i.taken[free], i.taken[words.Service(free)] = true, true, true
	}
}

// plain returns a text without what the name of a service cannot have.
func plain(text string) string {
	const most = 48 // and a number
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(variableLetters, r) {
			return r
		}
		return '-'
	}, text)
	return strings.Trim(text[:min(len(text), most)], "-_")
}

// usable reports whether berth takes a name of a model.
func usable(model string) bool {
	return model != "" && utf8.RuneCountInString(model) <= 256 && !strings.ContainsFunc(model, unicode.IsControl)
}

// write writes the sections.
func (i *importer) write() string {
	var b strings.Builder
	front := 8080
	for i.ports[front] {
		front++
	}
	fmt.Fprintf(&b, "front:\n  listen: 127.0.0.1:%d\n\nservices:\n", front)
	for n, s := range i.services {
		if n > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "  %s:\n", quote(s.name))
		for _, line := range s.lines {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

// seconds writes a length of time.
func seconds(n float64) string { return strconv.FormatFloat(min(n, 86400), 'f', -1, 64) }

// flow writes a list on one line.
func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote writes a text so that YAML reads the same text again.
func quote(text string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	first := strings.TrimLeft(text, "-/")
	switch {
	case first == "", strings.Trim(first[:1], letters) != "", strings.Trim(text, variableLetters+"/.-+@%=") != "",
		slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)):
		return strconv.Quote(text) // whose escapes are those of YAML
	}
	return text
}

// container returns the program that starts a container, or "".
func container(command []string) string {
	program := command[0][strings.LastIndexByte(command[0], '/')+1:]
	if len(command) > 1 && slices.Contains([]string{"docker", "podman", "nerdctl"}, program) && slices.Contains(command[1:], "run") {
		return program
	}
	return ""
}
