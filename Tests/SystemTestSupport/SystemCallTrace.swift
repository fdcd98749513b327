import Foundation
import Glibc
import TestSupport

/// What strace wrote of a process: its calls, each with the places of its beginning and end among all lines.
struct SystemCallTrace {
    struct Call {
        let name: String
        /// Name, arguments and result as strace prints them; descriptors carry their paths.
        var text: String
        let begin: Int
        var end: Int
    }

    private(set) var calls: [Call] = []

    /// strace is there and may trace what it starts.
    static let isPossible: Bool = {
        guard access("/usr/bin/strace", X_OK) == 0,
            let probe = try? ServerProcess("/usr/bin/strace", ["-f", "-D", "-o", "/dev/null", "/bin/true"])
        else { return false }
        try? blockUntil("the probe ends") { probe.exit != nil }
        return probe.exit == .code(0)
    }()

    /// What to put before a program and its arguments. The traced program keeps the pid, strace follows as its grandchild and ends with
    /// it; a program that is not dumpable can be traced by root only, and only from its start. The address sanitizer's search for leaks
    /// would trace the program itself, which one at a time can.
    static func launcher(_ calls: [String], to file: String) -> [String] {
        let options = [Sanitizer.options["ASAN_OPTIONS"], "detect_leaks=0"].compactMap(\.self).joined(separator: ":")
        return [
            "/usr/bin/strace", "-f", "-D", "-E", "ASAN_OPTIONS=\(options)", "-yy", "-s", "65536", "-e",
            "trace=" + calls.joined(separator: ","),
            "-e", "signal=none", "-o", file,
        ]
    }

    /// Reads `PID name(…) = result`, also in two parts: `PID name(… <unfinished ...>`, `PID <... name resumed>…) = result`.
    init(of path: String) throws {
        let lines = try String(contentsOfFile: path, encoding: .isoLatin1).split(separator: "\n")
        var open: [Substring: Int] = [:]
        for (place, line) in lines.enumerated() {
            guard let space = line.firstIndex(of: " ") else { continue }
            let thread = line[..<space]
            let rest = line[space...].drop { $0 == " " }
            if rest.hasPrefix("<... ") {
                guard let index = open.removeValue(forKey: thread), let tail = rest.firstRange(of: " resumed>") else {
                    continue
                }
                calls[index].text += rest[tail.upperBound...]
                calls[index].end = place
            } else if let parenthesis = rest.firstIndex(of: "(") {
                let unfinished = rest.firstRange(of: " <unfinished ...>")
                if unfinished != nil { open[thread] = calls.count }
                calls.append(
                    Call(
                        name: String(rest[..<parenthesis]),
                        text: String(rest[..<(unfinished?.lowerBound ?? rest.endIndex)]),
                        begin: place, end: place))
            }
        }
    }

    /// The first call that begins after `place` and satisfies `matches`.
    func first(after place: Int = -1, _ matches: (Call) -> Bool) -> Call? {
        calls.first { $0.begin > place && matches($0) }
    }
}
