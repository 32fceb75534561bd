package console

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// NoFiles tells the shell not to offer files.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// CompleteFlag makes a flag offer the completions of a first argument.
func CompleteFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, part)
	}) // fails only for a flag that does not exist
}

// CompleteWith makes a flag offer a list.
func CompleteWith[T ~string](cmd *cobra.Command, flag string, list []T) {
	CompleteFlag(cmd, flag, cobra.FixedCompletions(Texts(list), NoFiles))
}

// Texts returns words as strings.
func Texts[T ~string](words []T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// Known returns the answer of the daemon, or the zero value if it does not answer.
func Known[T any](c *Console, cmd *cobra.Command, ask func(*client.Client, context.Context) (T, error)) (answer T) {
	daemon, err := c.Client()
	if err != nil {
		return answer
	}
	defer daemon.Close()
	if got, err := ask(daemon, cmd.Context()); err == nil {
		answer = got
	}
	return answer
}

// CompleteGPU offers the devices that the daemon knows.
func (c *Console) CompleteGPU(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, NoFiles
	}
	for _, d := range Known(c, cmd, (*client.Client).StatusAll).GPUs {
		offers = append(offers, fmt.Sprintf("%d\t%s", d.Device.Index, term.Clean(d.Device.Name)))
	}
	return offers, NoFiles
}

// CompleteLease offers the ids of leases and waiting requests, and USER/ID if several
// users have an id.
func (c *Console) CompleteLease(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, NoFiles
	}
	all := Known(c, cmd, (*client.Client).Leases)
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(view.LeaseName(l.ID, l.Holder, all))+"\t"+view.Holder(l.Holder))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(view.LeaseName(w.ID, w.Holder, all))+"\twaits, "+view.Holder(w.Holder))
	}
	return offers, NoFiles
}

// CompleteService offers the services that hold something or wait.
func (c *Console) CompleteService(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeHolder(cmd, args, func(h api.Holder) string { return h.Service })
}

// CompleteUser offers the users who hold something or wait.
func (c *Console) CompleteUser(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeHolder(cmd, args, func(h api.Holder) string { return h.User })
}

// completeHolder offers a value of the holders of leases and waiting requests, each
// once.
func (c *Console) completeHolder(cmd *cobra.Command, args []string, of func(api.Holder) string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, NoFiles
	}
	all := Known(c, cmd, (*client.Client).Leases)
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(of(l.Holder)))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(of(w.Holder)))
	}
	slices.Sort(offers)
	return slices.DeleteFunc(slices.Compact(offers), func(s string) bool { return s == "" }), NoFiles
}
