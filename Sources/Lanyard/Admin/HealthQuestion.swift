/// The parts of a request that select a health page.
package struct HealthRequest: Equatable, Sendable {
    /// The path of the target, without query. Percent escapes are not decoded, because no valid name needs one.
    package var path: String
    /// The values of its `Accept` fields.
    package var accept: [String] = []

    package init(path: String, accept: [String] = []) {
        self.path = path
        self.accept = accept
    }
}
