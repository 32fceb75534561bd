// Command manual writes a man page for each command of berth, and the completions of
// three shells.
//
// All of it comes from the tree of commands, so that it says what --help says.
//
//	go run ./deploy/manual -version 0.1.0 -date 2026-01-31 FOLDER
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli"
)

func main() {
	version := flag.String("version", "dev", "version of berth, for the foot of each page")
	date := flag.String("date", "", "day of the release, for the foot of each page")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "manual [-version VERSION] [-date DAY] FOLDER")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), foot{*version, *date}); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the manual:", err)
		os.Exit(1)
	}
}

// write writes man/ and completions/ into a folder.
func write(folder string, f foot) error {
	root := commands()
	for name, text := range pages(root, f) {
		if err := put(filepath.Join(folder, "man", name), text); err != nil {
			return err
		}
	}
	shells := filepath.Join(folder, "completions")
	if err := os.MkdirAll(shells, 0o755); err != nil {
		return err
	}
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(shells, "berth.bash"), true),
		root.GenZshCompletionFile(filepath.Join(shells, "_berth")),
		root.GenFishCompletionFile(filepath.Join(shells, "berth.fish"), true))
}

func put(path, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// commands returns the tree of commands. In an empty world no default depends on the
// machine that writes the pages.
func commands() *cobra.Command {
	root := cli.New(cli.Env{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}
