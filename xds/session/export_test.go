package session

// NewVersion makes a resource with a version that a test can read.
func NewVersion(t *Type, name, version string, body []byte, refs []string) *Resource {
	return newResource(t, name, version, body, refs)
}
