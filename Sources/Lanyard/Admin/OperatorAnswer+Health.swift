/// The health listener's own problems.
extension OperatorResponse {
    static func methodNotAllowed() -> OperatorResponse {
        var response = problem(
            405, "method-not-allowed", "Method not allowed", "The health listener accepts GET and HEAD only.")
        response.allow = "GET, HEAD"
        return response
    }

    static let hostNotAllowed = problem(
        421, "host-not-allowed", "Host not allowed",
        "Name the health listener by an IP address, or by localhost with its port.")
}
