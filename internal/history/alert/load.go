package alert

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/internal/file"
)

// largest is the most bytes of a file.
const largest = 1 << 20

// mostOffset is the longest query_offset: the store takes what is two hours late, and
// evaluations take time.
const mostOffset = time.Hour

// FileError says what is wrong with a file of rules.
type FileError struct {
	File string
	Line int // 0 if not known
	Why  string
	err  error // why the file could not be read, if it could not
}

func (e *FileError) Unwrap() error { return e.err }

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Why
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
}

// Load reads files of rules. Groups without an interval get the given one. Load returns
// every mistake in every file, and refuses files that others can change, as
// file.ReadTrusted does.
func Load(paths []string, interval time.Duration, warn func(string)) ([]Group, error) {
	var (
		groups []Group
		wrong  []error
	)
	for _, path := range paths {
		text, err := read(path, warn)
		if err != nil {
			wrong = append(wrong, &FileError{File: path, Why: cause(err), err: err})
			continue
		}
		list, err := Parse(path, text, interval)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		groups = append(groups, list...)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return groups, nil
}

// read reads a regular file that is not too large.
func read(path string, warn func(string)) ([]byte, error) {
	found, err := file.ReadTrusted(path, warn)
	if err != nil {
		return nil, err
	}
	if len(found.Text) > largest {
		return nil, fmt.Errorf("it is larger than %d KiB", largest>>10)
	}
	return found.Text, nil
}

// cause returns an error without the path, which the caller names.
func cause(err error) string {
	if named := (*os.PathError)(nil); errors.As(err, &named) {
		return "cannot read the file: " + named.Err.Error()
	}
	return "cannot read the file: " + err.Error()
}

// Parse reads the text of a file.
func Parse(file string, text []byte, interval time.Duration) ([]Group, error) {
	read, wrong := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(wrong) > 0 {
		return nil, explain(file, text, wrong)
	}
	groups := make([]Group, 0, len(read.Groups))
	for _, g := range read.Groups {
		group := Group{Name: g.Name, File: file, Interval: time.Duration(g.Interval), Limit: g.Limit, Rules: make([]Rule, 0, len(g.Rules))}
		if group.Interval <= 0 {
			group.Interval = interval
		}
		if g.QueryOffset != nil {
			group.Offset = time.Duration(*g.QueryOffset)
			if group.Offset > mostOffset {
				why := fmt.Sprintf("group %q: query_offset is longer than %v, and what is so late is not stored", g.Name, model.Duration(mostOffset))
				wrong = append(wrong, &FileError{File: file, Line: ruleLines(text)[place{g.Name, 0}], Why: why})
			}
		}
		for _, r := range g.Rules {
			own := map[string]string{}
			maps.Copy(own, g.Labels)
			maps.Copy(own, r.Labels)
			group.Rules = append(group.Rules, Rule{
				Alert: r.Alert, Record: r.Record, Expr: strings.TrimSpace(r.Expr), For: time.Duration(r.For), Keep: time.Duration(r.KeepFiringFor),
				Labels: labels.FromMap(own), Annotations: labels.FromMap(r.Annotations),
			})
		}
		groups = append(groups, group)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return groups, nil
}

// The forms in which the reader gives the place of a mistake, and the names of its types,
// which mean nothing to users.
var (
	position = regexp.MustCompile(`^(?:yaml: )?(?:line )?(\d+)(?::\d+)?: (?:\d+:\d+: )?`)
	types    = regexp.MustCompile(` in type rulefmt\.\w+`)
	groupIn  = regexp.MustCompile(`groupname: "(.*)" is repeated`)
)

// explain returns the mistakes with file and line.
func explain(file string, text []byte, wrong []error) error {
	lines := ruleLines(text)
	var list []error
	seen := map[string]bool{}
	add := func(line int, why string) {
		e := &FileError{File: file, Line: line, Why: types.ReplaceAllString(why, "")}
		if !seen[e.Error()] { // the reader reads the text twice
			seen[e.Error()] = true
			list = append(list, e)
		}
	}
	for _, err := range wrong {
		line := 0
		if in := (*rulefmt.Error)(nil); errors.As(err, &in) {
			line = lines[place{in.Group, in.Rule}]
		} else if found := groupIn.FindStringSubmatch(err.Error()); found != nil {
			line = lines[place{found[1], 0}]
		}
		if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
			for _, why := range several.Errors {
				add(split(why, line))
			}
			continue
		}
		add(split(err.Error(), line))
	}
	return errors.Join(list...)
}

// split cuts the line number off the beginning of an error.
func split(why string, otherwise int) (int, string) {
	found := position.FindStringSubmatch(why)
	if found == nil {
		return otherwise, why
	}
	if line, err := strconv.Atoi(found[1]); err == nil && line > 0 {
		otherwise = line
	}
	return otherwise, strings.TrimPrefix(why, found[0])
}

// place is the position of a rule: its group and its number there, starting at 1.
type place struct {
	group string
	rule  int
}

// ruleLines returns the lines on which rules begin, and under number 0 the lines of
// groups. Of two groups with the same name, it returns the line of the second.
func ruleLines(text []byte) map[place]int {
	var file struct {
		Groups []yaml.Node `yaml:"groups"`
	}
	_ = yaml.Unmarshal(text, &file) // rules that cannot be read have no lines
	lines := map[place]int{}
	for _, node := range file.Groups {
		var g struct {
			Name  string      `yaml:"name"`
			Rules []yaml.Node `yaml:"rules"`
		}
		_ = node.Decode(&g)
		lines[place{g.Name, 0}] = node.Line
		for i, r := range g.Rules {
			lines[place{g.Name, i + 1}] = r.Line
		}
	}
	return lines
}
