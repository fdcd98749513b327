import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// One finding of `lanyard check`: an error or a warning, with its place.
struct CheckFinding {
    let severity: ConfigurationError.Severity
    let place: ConfigurationPlace
    /// What is wrong, and what to do.
    let text: String

    init(_ severity: ConfigurationError.Severity, at place: ConfigurationPlace, _ text: String) {
        self.severity = severity
        self.place = place
        self.text = ConfigurationText.line(text)
    }

    init(_ error: ConfigurationError) {
        self.init(error.severity, at: error.place, "\(error.message); \(error.remedy)")
    }

    var isWarning: Bool { severity == .warning }

    /// One line: `error: lanyard.yaml:12:5: unknown key "upstram"; did you mean "upstream"?`
    var line: OperatorText { "\(isWarning ? "warning" : "error"): \(place): \(text)" }

    /// As an element of `findings`.
    func write(into document: inout JSONWriter) {
        document.beginObject()
        document.key("severity")
        document.string(isWarning ? "warning" : "error")
        document.key("place")
        document.string("\(place)")
        let (file, line, column): (String?, Int?, Int?) =
            switch place {
            case .file(let path, let line, let column): (path, line, column)
            case .wholeFile(let path): (path, nil, nil)
            case .flag, .environment, .commandLine: (nil, nil, nil)
            }
        document.member("file", file)
        document.member("line", line)
        document.member("column", column)
        document.member("text", text)
        document.endObject()
    }
}

extension JSONWriter {
    /// A member that is `null` without a value.
    mutating func member(_ name: String, _ value: String?) {
        key(name)
        if let value { string(value) } else { null() }
    }

    /// A member that is `null` without a value.
    mutating func member(_ name: String, _ value: Int?) {
        key(name)
        if let value { number(value) } else { null() }
    }

    /// A member that is true or false.
    mutating func member(_ name: String, _ value: Bool) {
        key(name)
        bool(value)
    }
}

/// The one JSON document of a command that asks no admin API: `check`, `health`, `wait`, `route` and `version` with `--json`.
enum JSONDocument {
    /// Writes one object on one line of standard output.
    static func print(_ members: (inout JSONWriter) -> Void) {
        var document = JSONWriter()
        document.beginObject()
        members(&document)
        document.endObject()
        _ = Report.output(json: document.bytes.withUnsafeBytes { Secret(copying: $0) })
    }
}
