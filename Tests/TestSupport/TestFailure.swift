/// What a helper of the tests throws: one sentence that says what was awaited and what came instead.
package struct TestFailure: Error, Equatable, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// Fails with this sentence.
    package init(_ description: String) { self.description = description }
}
