// Package render writes what commands have to say, in the forms that -o offers. Values go in, text
// comes out; it knows nothing of what the values mean. A new form is one function here.
package render
