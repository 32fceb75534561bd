package console

import "github.com/spf13/cobra"

// StateFlag lets a command that reads the files of a daemon itself name their
// folder.
func StateFlag(cmd *cobra.Command, folder *string) {
	cmd.Flags().StringVar(folder, "state-dir", "", "state `FOLDER` of the daemon (default as configured)")
	_ = cmd.MarkFlagDirname("state-dir") // fails only for a flag that is not there
}

// StateDir returns the state folder of the daemon: the one that was given, or
// else the one that is configured.
func (c *Console) StateDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	settings, err := c.Settings("")
	if err != nil {
		return "", Hinted(err, "or name the folder: --state-dir DIR")
	}
	return settings.Config.Daemon.StateDir, nil
}
