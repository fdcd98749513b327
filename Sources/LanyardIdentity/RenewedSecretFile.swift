import Glibc
import LanyardFoundations
import LanyardSessionInterface

/// Watches a secret file that another program renews, and says which secret is to be sent: the token of a `static` identity, or the value
/// of a field of a route.
///
/// A file that is empty, cut or missing is probably being written: its former content serves for `TokenTransition.durationMax` more. A file
/// of another owner or mode than before is not being written by the program that renews it.
package final class RenewedSecretFile: Sendable {
    /// Which secret is to be sent.
    package enum Outcome: Equatable, Sendable {
        case secret(Secret)
        /// The file cannot be used for now. The former secret serves until the next outcome, which comes within
        /// `TokenTransition.durationMax`.
        case kept(SecretFile.ReadError)
        /// There is none.
        case none(SecretFile.ReadError)
    }

    /// What a read of the file means.
    private enum Finding {
        case secret(Secret)
        /// The file is being written, as far as can be seen.
        case inTransition(SecretFile.ReadError)
        case unusable(SecretFile.ReadError)
    }

    /// The secret that is in use, with the owner and the mode of its file.
    private struct Served {
        var secret: Secret
        var stamp: FileSnapshot.Stamp?
    }

    private let path: String
    private let form: FieldValueSecret.Form
    private let files: FileReader
    private let loop: EventLoop
    private let inspect: @Sendable (SecretFile.Content) -> Void
    /// Belongs to the loop's queue, as all below does. `start` and `stop` switch to it.
    private nonisolated(unsafe) var watch: FileWatch?
    private nonisolated(unsafe) var last: Outcome?
    private nonisolated(unsafe) var served: Served?
    /// While the file is in transition: the end of that time, and why the secret is refused from then on.
    private nonisolated(unsafe) var transition: (end: TransitionEnd, error: SecretFile.ReadError)?

    /// Does nothing yet.
    ///
    /// - Parameters:
    ///   - form: what the content may be.
    ///   - inspect: gets each content that was read, whatever it is worth. On the loop's queue.
    package init(
        _ path: String, as form: FieldValueSecret.Form, by files: FileReader, on loop: EventLoop,
        inspect: @escaping @Sendable (SecretFile.Content) -> Void = { _ in }
    ) {
        self.path = path
        self.form = form
        self.files = files
        self.loop = loop
        self.inspect = inspect
    }

    /// What follows the reason where the former secret serves.
    ///
    /// - Parameter secret: `token` or `value`.
    package static func keptMessage(of secret: String) -> String {
        "the \(secret) that it held before serves for \(Int(TokenTransition.durationMax.inSeconds)) s more at most"
    }

    /// Begins to watch. Call once.
    ///
    /// - Parameter onChange: called on the loop's queue: soon with the first outcome, then with each different one.
    package func start(_ onChange: @escaping @Sendable (Outcome) -> Void) {
        loop.post { [self] in
            guard watch == nil else { return }
            let watch = FileWatch(path, by: files, on: loop) { [weak self] in self?.receive($0, onChange) }
            self.watch = watch
            watch.start()
        }
    }

    package func stop() {
        loop.post { [self] in
            watch?.stop()
            endTransition()
        }
    }

    deinit { watch?.stop() }

    private func receive(_ read: FileWatch.Outcome, _ onChange: @escaping @Sendable (Outcome) -> Void) {
        loop.assertIsCurrent()
        let stamp = watch?.stamp
        switch finding(read) {
        case .secret(let secret):
            endTransition()
            served = Served(secret: secret, stamp: stamp)
            report(.secret(secret), onChange)
        case .inTransition(let error) where served.map { Self.isOfSameWriter($0.stamp, stamp) } == true:
            holdFormer(error, onChange)
        case .inTransition(let error), .unusable(let error): refuse(error, onChange)
        }
    }

    private func report(_ outcome: Outcome, _ onChange: (Outcome) -> Void) {
        guard outcome != last else { return }
        last = outcome
        onChange(outcome)
    }

    private func refuse(_ error: SecretFile.ReadError, _ onChange: (Outcome) -> Void) {
        endTransition()
        served = nil
        report(.none(error), onChange)
    }

    /// The former secret serves until the file holds one again. That it is empty at first and missing afterwards prolongs nothing.
    private func holdFormer(_ error: SecretFile.ReadError, _ onChange: @escaping @Sendable (Outcome) -> Void) {
        guard transition == nil else {
            transition?.error = error
            return
        }
        let end = TransitionEnd(on: loop) { [weak self] in
            guard let self, let error = transition?.error else { return }
            refuse(error, onChange)
        }
        transition = (end, error)
        report(.kept(error), onChange)
    }

    private func endTransition() {
        transition?.end.cancel()
        transition = nil
    }

    private func finding(_ read: FileWatch.Outcome) -> Finding {
        switch read {
        case .failure(let error): return Self.isTransition(error) ? .inTransition(error) : .unusable(error)
        case .success(let content):
            inspect(content)
            do throws(SecretFile.ReadError) {
                let secret = try FieldValueSecret.value(of: content.secret, as: form)
                if let served, TokenCut.isCut(secret, of: served.secret) {
                    return .inTransition(
                        .unfit(
                            "holds a token that is cut off; write the whole one; if it is whole, empty the file first"))
                }
                return .secret(secret)
            } catch {
                return Self.isTransition(error) ? .inTransition(error) : .unusable(error)
            }
        }
    }

    private static func isTransition(_ error: SecretFile.ReadError) -> Bool {
        switch error {
        case .empty: true
        case .system(let code): [ENOENT, ENOTDIR, ESTALE].contains(code)
        case .notRegular, .tooLarge, .unfit, .delayed, .unsettled, .stopping: false
        }
    }

    /// A missing file has neither owner nor mode.
    private static func isOfSameWriter(_ former: FileSnapshot.Stamp?, _ stamp: FileSnapshot.Stamp?) -> Bool {
        guard let former, let stamp else { return true }
        return former.owner == stamp.owner && former.mode == stamp.mode
    }
}

/// Whether a file holds the beginning of a token alone, as while a program writes it.
enum TokenCut {
    /// The text is the beginning of the former token. Or it is the beginning of a JWT, in place of a whole one.
    static func isCut(_ token: Secret, of former: Secret) -> Bool {
        token.withBytes { token in
            former.withBytes { former in
                if token.count < former.count, former.starts(with: token) { return true }
                return JWTExtent(former) == .whole && JWTExtent(token) == .part
            }
        }
    }
}

/// How much of a JSON Web Token a text is, by its header.
private enum JWTExtent {
    /// A JWS of three parts, or a JWE of five.
    case whole
    /// Its beginning. More may follow.
    case part
    /// Another kind of token, such as a key that is JSON in Base64, or signed data of a web framework.
    case none

    /// Base64 of `{"`, with which the header of nearly each JWT begins.
    private static let start = Array("eyJ".utf8)

    init(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.starts(with: Self.start) else {
            self = .none
            return
        }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        switch Self.header(parts[0]) {
        case .incomplete: self = parts.count == 1 ? .part : .none
        case .other: self = .none
        case .algorithm(let isNone):
            // The key of a JWE is empty where none is sent (RFC 7516 section 3.1), the signature of an unsecured JWS always (RFC 7519
            // section 6).
            let isWhole = parts.indices.allSatisfy { place in
                !parts[place].isEmpty || parts.count == 5 && place == 1 || parts.count == 3 && place == 2 && isNone
            }
            self = isWhole && (parts.count == 3 || parts.count == 5) ? .whole : parts.count > 5 ? .none : .part
        }
    }

    private enum Header {
        /// Base64 of the beginning of a JSON object.
        case incomplete
        /// A JSON object with `alg`, which each JWT has (RFC 7515 section 4.1.1).
        case algorithm(isNone: Bool)
        case other
    }

    private static func header(_ part: Slice<UnsafeRawBufferPointer>) -> Header {
        guard let decoded = Base64.decoded(part) else { return .other }
        return decoded.withBytes { bytes in
            do throws(JSONError) {
                var found = Header.other
                var reader = JSONReader(bytes, depthMax: 64)
                guard try reader.next() == .objectStart else { return .other }
                while case .name(let name) = try reader.next() {
                    guard JSONText.matches(name, of: bytes, "alg") else {
                        try reader.skipValue()
                        continue
                    }
                    guard case .string(let value) = try reader.next() else { return .other }
                    found = .algorithm(isNone: JSONText.matches(value, of: bytes, "none"))
                }
                return try reader.next() == .end ? found : .other
            } catch {
                return error.kind == .endsEarly ? .incomplete : .other
            }
        }
    }
}

/// The end of the time in which a file may be in transition. It retains itself until then. All state belongs to the loop's queue.
private final class TransitionEnd: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private let deadline = Deadline()
    /// Kept until it was called, because it is called once.
    private var act: (() -> Void)?
    private var waiting: TransitionEnd?

    /// Begins at once. `act` is called once, unless it is cancelled before.
    init(on loop: EventLoop, act: @escaping () -> Void) {
        self.loop = loop
        self.act = act
        super.init()
        deadline.owner = self
        waiting = self
        loop.set(deadline, at: loop.now + TokenTransition.durationMax)
    }

    func cancel() {
        loop.assertIsCurrent()
        loop.drop(deadline)
        (act, waiting) = (nil, nil)
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let act = self.act
        (self.act, waiting) = (nil, nil)
        act?()
    }
}
