package console

import (
	"context"
	"slices"
	"strconv"

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

// Offer returns a completion of the first argument: what offers makes of the answer of
// the daemon.
func Offer[T any](c *Console, ask func(*client.Client, context.Context) (T, error), offers func(T) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, NoFiles
		}
		return offers(Known(c, cmd, ask)), NoFiles
	}
}

// OfferEach does the same as Offer for an answer with a list: it offers what option makes of
// each item.
func OfferEach[T, I any](c *Console, ask func(*client.Client, context.Context) (T, error), list func(T) []I, option func(I) (name, about string)) cobra.CompletionFunc {
	return Offer(c, ask, func(all T) (offers []string) {
		for _, item := range list(all) {
			name, about := option(item)
			offers = append(offers, term.Clean(name)+"\t"+term.Clean(about))
		}
		return offers
	})
}

// GPUs returns a completion that offers the devices that the daemon knows.
func (c *Console) GPUs() cobra.CompletionFunc {
	return OfferEach(c, (*client.Client).StatusAll, func(all api.StatusAll) []api.Status { return all.GPUs }, func(d api.Status) (name, about string) {
		return strconv.Itoa(d.Device.Index), d.Device.Name
	})
}

// Leases returns a completion that offers the ids of leases and waiting requests, and
// USER/ID if several users have an id.
func (c *Console) Leases() cobra.CompletionFunc {
	return Offer(c, (*client.Client).Leases, func(all api.Leases) (offers []string) {
		for _, l := range all.Leases {
			offers = append(offers, term.Clean(view.LeaseName(l.ID, l.Holder, all))+"\t"+view.Holder(l.Holder))
		}
		for _, w := range all.Waiting {
			offers = append(offers, term.Clean(view.LeaseName(w.ID, w.Holder, all))+"\twaits, "+view.Holder(w.Holder))
		}
		return offers
	})
}

// Services returns a completion that offers the services that hold something or wait.
func (c *Console) Services() cobra.CompletionFunc {
	return c.holders(func(h api.Holder) string { return h.Service })
}

// Users returns a completion that offers the users who hold something or wait.
func (c *Console) Users() cobra.CompletionFunc {
	return c.holders(func(h api.Holder) string { return h.User })
}

// holders returns a completion that offers a value of the holders of leases and waiting
// requests, each once.
func (c *Console) holders(of func(api.Holder) string) cobra.CompletionFunc {
	return Offer(c, (*client.Client).Leases, func(all api.Leases) (offers []string) {
		for _, h := range view.Holders(all) {
			offers = append(offers, term.Clean(of(h)))
		}
		slices.Sort(offers)
		return slices.DeleteFunc(slices.Compact(offers), func(s string) bool { return s == "" })
	})
}
