package file

// SaveIn saves a value in a folder, under the name of the state file.
func (s *State[T]) SaveIn(folder Folder, v T) error {
	s.folder = folder
	return s.Save(v)
}
