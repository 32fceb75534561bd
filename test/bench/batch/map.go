package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

//go:embed map.py
var mapProgram string

// mapBesideRun compares berth.map over a list with berth run over a file of the same
// records, seven times in turns; the quickest ones count.
func mapBesideRun(berth string, records int) error {
	fmt.Printf("\n%d records with some 20 µs of work each, through one worker\n", records)
	berth, err := filepath.Abs(berth)
	if err != nil {
		return err
	}
	python, err := filepath.Abs("python")
	if err != nil {
		return err
	}
	d, err := daemon.Start(daemon.Setup{Berth: berth, Devices: "sim:1"})
	if err != nil {
		return err
	}
	defer d.Close()
	script := filepath.Join(d.Dir, "map.py")
	if err := os.WriteFile(script, []byte(mapProgram), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("python3", script, d.Dir, berth, fmt.Sprint(records))
	cmd.Env = append(os.Environ(), "BERTH_SOCKET="+d.Socket, "BERTH_BIN="+berth, "PYTHONPATH="+python, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("python3 %s: %w", script, err)
	}
	var runs, maps []float64
	for line := range strings.Lines(string(out)) {
		var run, mapped float64
		if _, err := fmt.Sscan(line, &run, &mapped); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		runs, maps = append(runs, run), append(maps, mapped)
	}
	run, mapped := figure.Quantile(runs, 0), figure.Quantile(maps, 0)
	fmt.Printf("berth run %.2f s, berth.map %.2f s, which is %.3f times as long; the middle ones %.3f times\n",
		run, mapped, mapped/run, figure.Quantile(maps, 0.5)/figure.Quantile(runs, 0.5))
	figure.Say("berth.map ÷ berth run", mapped/run, "ratio", figure.Less)
	return nil
}
