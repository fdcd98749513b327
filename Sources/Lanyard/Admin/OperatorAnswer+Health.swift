/// The health listener's own problems.
extension OperatorAnswer {
    static func methodNotAllowed() -> OperatorAnswer {
        var answer = problem(
            405, "method-not-allowed", "Method not allowed", "The health listener answers GET and HEAD only.")
        answer.allow = "GET, HEAD"
        return answer
    }

    static let hostNotAllowed = problem(
        421, "host-not-allowed", "Host not allowed",
        "Name the health listener by an IP address, or by localhost with its port.")
}
