import Foundation
import Glibc
import TestSupport

/// How often each function was called in a process, as valgrind's callgrind wrote it. The counts are exact, whatever else the machine does.
struct CallgrindProfile {
    /// Why no such profile can be made; nil: one can.
    static let obstacle: String? = {
        for tool in ["/usr/bin/valgrind", "/usr/bin/objcopy"] where access(tool, X_OK) != 0 { return "needs \(tool)" }
        if Sanitizer.isOn { return "a sanitizer counts otherwise" }
        if Products.release("lanyard") == nil { return "needs the release build: a debug build counts far more" }
        return nil
    }()

    /// A copy of the release program that valgrind can read: version 3.19 cannot read the debug sections that Swift writes.
    static func program(in folder: TemporaryFolder) async throws -> String {
        guard let release = Products.release("lanyard") else { throw TestFailure("no release build") }
        let copy = folder.file("lanyard")
        let stripping = try ServerProcess("/usr/bin/objcopy", ["--strip-debug", release, copy])
        guard try await stripping.waitForExit() == .code(0) else { throw TestFailure(stripping.log) }
        return copy
    }

    /// What to put before a program: its profile is in the file when it has ended.
    static func launcher(to file: String) -> [String] {
        [
            "/usr/bin/valgrind", "--tool=callgrind", "--fair-sched=yes", "--callgrind-out-file=\(file)",
            "--log-file=\(file).log",
        ]
    }

    private var counts: [String: Int] = [:]

    /// Reads the lines `cfn=(ID) NAME`, where the name stands once, and `calls=COUNT …` behind them.
    init(of path: String) throws {
        var names: [Substring: String] = [:]
        var called = ""
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
            if line.hasPrefix("calls=") {
                guard let count = line.dropFirst(6).split(separator: " ").first.flatMap({ Int($0) }) else {
                    throw TestFailure("\(path): \(line)")
                }
                counts[called, default: 0] += count
            } else if line.hasPrefix("fn=(") || line.hasPrefix("cfn=("), let parenthesis = line.firstIndex(of: ")") {
                let id = line[..<parenthesis].drop { $0 != "(" }
                let name = line[parenthesis...].dropFirst(2)
                if !name.isEmpty { names[id] = String(name) }
                if line.hasPrefix("c") { called = names[id] ?? "" }
            }
        }
    }

    /// Calls of a function by its symbol, without the library's version.
    func calls(of function: String) -> Int {
        counts.reduce(0) { $1.key == function || $1.key.hasPrefix(function + "@") ? $0 + $1.value : $0 }
    }
}
