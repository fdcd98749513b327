/// What a probe asks: a request's target without query, and what it accepts.
package struct HealthRequest: Equatable, Sendable {
    /// The path of the target, percent escapes as they came: no name of ours needs one.
    package var path: String
    /// Its `Accept` fields.
    package var accept: [String] = []

    package init(path: String, accept: [String] = []) {
        self.path = path
        self.accept = accept
    }
}
