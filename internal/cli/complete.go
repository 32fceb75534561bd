package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/view"
)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeFlag makes a flag offer what complete offers for a first argument.
func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, part string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, part)
	}) // fails only for a flag that is not there
}

// completeWith makes a flag offer a list.
func completeWith[T ~string](cmd *cobra.Command, flag string, list []T) {
	completeFlag(cmd, flag, cobra.FixedCompletions(texts(list), noFiles))
}

func texts[T ~string](words []T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// known returns what the daemon answers; nothing if it does not answer.
func known[T any](a *app, cmd *cobra.Command, ask func(*client.Client, context.Context) (T, error)) (answer T) {
	c, err := a.client()
	if err != nil {
		return answer
	}
	defer c.Close()
	if got, err := ask(c, cmd.Context()); err == nil {
		answer = got
	}
	return answer
}

// completeGPU offers the devices that the daemon knows.
func (a *app) completeGPU(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	for _, d := range known(a, cmd, (*client.Client).StatusAll).GPUs {
		offers = append(offers, fmt.Sprintf("%d\t%s", d.Device.Index, term.Clean(d.Device.Name)))
	}
	return offers, noFiles
}

// completeLease offers the ids of leases and of requests that wait.
func (a *app) completeLease(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	all := known(a, cmd, (*client.Client).Leases)
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(l.ID)+"\t"+view.Holder(l.Holder))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(w.ID)+"\twaits, "+view.Holder(w.Holder))
	}
	return offers, noFiles
}

// completeService offers the services that hold something or wait.
func (a *app) completeService(cmd *cobra.Command, args []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	all := known(a, cmd, (*client.Client).Leases)
	for _, l := range all.Leases {
		offers = append(offers, term.Clean(l.Holder.Service))
	}
	for _, w := range all.Waiting {
		offers = append(offers, term.Clean(w.Holder.Service))
	}
	slices.Sort(offers)
	return slices.DeleteFunc(slices.Compact(offers), func(s string) bool { return s == "" }), noFiles
}

// completeField offers the fields of the configuration in force that come from a
// source (empty: from any), each with a suffix.
func (a *app) completeField(cmd *cobra.Command, suffix, source string) (offers []string) {
	for _, f := range known(a, cmd, (*client.Client).ConfigFields).Fields {
		if source != "" && f.Source != source {
			continue
		}
		offers = append(offers, strings.TrimPrefix(f.Field, "gpu.")+suffix+"\t"+term.Clean(f.Doc))
	}
	return offers
}
