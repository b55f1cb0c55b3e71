//go:build e2e

package sanitizer

// catalogs is how many are offered.
const catalogs = 10_000
