package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The most exposure that systemd-analyze may find, of 10.
const (
	unitLimit      = 3.6
	isolationLimit = 5.5
)

// exposure asks systemd-analyze how much of the machine a mistake in the daemon
// could reach. It asks about a copy, with the drop-in if there is one: systemd
// takes every drop-in that lies beside a unit.
func exposure(units, dropIn string, limit float64) (string, error) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return "", fmt.Errorf("%w: there is no systemd-analyze: apt-get install systemd", errUnchecked)
	}
	root, err := os.MkdirTemp("", "audit")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	files := []string{"berth.service"}
	if dropIn != "" {
		files = append(files, "berth.service.d/"+dropIn)
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(units, name))
		to := filepath.Join(root, "etc/systemd/system", name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			return "", err
		}
	}
	text, err := exec.Command(tool, "security", "--offline=true", "--no-pager", "--root="+root, "berth.service").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("systemd-analyze: %w\n%s", err, text)
	}
	got, err := parseExposure(string(text))
	if err != nil {
		return "", err
	}
	if got > limit {
		return "", fmt.Errorf("systemd-analyze rates it %.1f, and at most %.1f is allowed", got, limit)
	}
	return fmt.Sprintf("systemd-analyze rates it %.1f of 10; at most %.1f is allowed", got, limit), nil
}

// parseExposure reads the last line that systemd-analyze prints.
func parseExposure(text string) (float64, error) {
	_, rest, found := strings.Cut(text, "Overall exposure level for berth.service: ")
	number, _, _ := strings.Cut(rest, " ")
	got, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("systemd-analyze did not say how exposed the unit is:\n%s", text)
	}
	return got, nil
}
