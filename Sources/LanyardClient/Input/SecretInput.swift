import CLinux
import Glibc
import LanyardFoundations

/// Reads a secret for one call: from a file, from standard input, or from a prompt without echo.
package enum SecretInput {
    /// The name that stands for standard input.
    package static let standardInput = "-"
    /// Bytes of the longest secret: the admin API takes no longer body.
    private static let bytesMax = 64 << 10

    /// Whether standard input is a terminal, so that the operator can be asked.
    package static var isTerminal: Bool { isatty(STDIN_FILENO) == 1 }

    /// The content of a file as text, without a byte order mark and one final line end. `-` is standard input; a terminal there is asked by
    /// `prompt`.
    ///
    /// A pipe is taken, too, unlike for secrets of the configuration: it is read once.
    ///
    /// - Parameters:
    ///   - path: nil: standard input.
    ///   - form: what the text may hold.
    ///   - prompt: without the colon, such as `Password of alice@example.com`.
    /// - Throws: `file` if the file cannot be read or has no such text; `usage` if that is true of the input. The operator corrects it.
    ///   Nothing was sent.
    package static func read(
        _ path: String?, as form: SecretText.Form = .any, prompt: String
    ) throws(InputError) -> Secret {
        var secret: Secret
        if let path, path != standardInput {
            secret = try contents(ofFile: path)
        } else if isTerminal {
            secret = try HiddenPrompt.read(prompt + ": ")
        } else {
            secret = try contents(of: OwnedDescriptor(taking: dup(STDIN_FILENO)), named: "standard input")
        }
        let file = path == standardInput ? nil : path
        let name = file ?? "the input"
        let kind: InputError.Kind = file == nil ? .usage : .file
        guard !secret.withBytes(SecretText.isWide) else {
            throw InputError(
                kind, "\(name) is text in UTF-16: nothing was sent",
                remedy: "save it as UTF-8 (in PowerShell: Set-Content -NoNewline -Encoding utf8)")
        }
        secret = SecretText.content(of: secret, as: form)
        guard secret.count > 0 else {
            throw InputError(
                kind, "\(name) is empty: nothing was sent", remedy: "give it the secret and repeat the command")
        }
        guard isText(secret) else {
            throw InputError(
                kind, "\(name) is not UTF-8 text: nothing was sent",
                remedy: "give the secret as text: the services take no other bytes")
        }
        return secret
    }

    /// A JSON document of a file or of standard input.
    ///
    /// - Parameter kind: what it must be.
    /// - Throws: as `read` and `check` do.
    package static func json(_ path: String, _ kind: JSONKind, prompt: String) throws(InputError) -> Secret {
        let document = try read(path, as: .document, prompt: prompt)
        try check(document, kind, named: path == standardInput ? "the input" : path)
        return document
    }

    /// What a JSON document must be.
    package enum JSONKind: Sendable { case any, object, array }

    /// Checks that this is one JSON document of that kind.
    ///
    /// - Parameter name: of the document in the message.
    /// - Throws: `usage`: it is not, by the operator's fault. Nothing was sent.
    package static func check(_ document: Secret, _ kind: JSONKind, named name: String) throws(InputError) {
        let fault: String? = document.withBytes { bytes in
            var reader = JSONReader(bytes, depthMax: 128)
            do throws(JSONError) {
                let first = try reader.next()
                while try reader.next() != .end {}
                return switch kind {
                case .any: nil
                case .object: first == .objectStart ? nil : "is not a JSON object"
                case .array: first == .arrayStart ? nil : "is not a JSON array"
                }
            } catch {
                return "is not JSON from byte \(error.offset) on"
            }
        }
        if let fault {
            throw InputError(.usage, "\(name) \(fault): nothing was sent", remedy: "correct it and repeat the command")
        }
    }

    private static func contents(ofFile path: String) throws(InputError) -> Secret {
        FileProgress.note(path)
        defer { FileProgress.noteEnd() }
        let raw = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard raw >= 0 else { throw unreadable(path, errno) }
        return try contents(of: OwnedDescriptor(taking: raw), named: path)
    }

    private static func contents(
        of descriptor: consuming OwnedDescriptor, named name: String
    ) throws(InputError) -> Secret {
        let read = try Secret(capacity: bytesMax + 1) { room throws(InputError) in
            try descriptor.read(into: room) { unreadable(name, $0) }
        }
        guard read.count <= bytesMax else {
            throw InputError(
                .file, "\(name) is larger than 64 KiB",
                remedy: "give the right file: the admin API takes no longer secret")
        }
        return SecretText.text(of: read)
    }

    private static func unreadable(_ name: String, _ code: CInt) -> InputError {
        InputError(
            .file, "\(name) cannot be read (\(Errno.text(of: code)))",
            remedy: "correct the path, or the rights of the file")
    }

    private static func isText(_ secret: Secret) -> Bool {
        var scratch = SecretBuffer(capacity: secret.count + 2)
        return secret.withBytes { JSONText.write($0, into: &scratch) }
    }
}

/// Why the operator's input cannot be used. A type of its own, because the kind decides the exit code.
package struct InputError: Error, Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// A file, or what was typed, cannot be used.
        case file
        /// What the command line gives is not of the form that the call takes.
        case usage
    }

    package let kind: Kind
    /// Never holds a byte of a secret.
    package let message: String
    /// What to do, as a sentence without its period.
    package let remedy: String

    package init(_ kind: Kind, _ message: String, remedy: String) {
        self.kind = kind
        self.message = message
        self.remedy = remedy
    }

    /// 64 or 78 of sysexits.h.
    package var exitCode: Int32 { kind == .usage ? 64 : 78 }
}
