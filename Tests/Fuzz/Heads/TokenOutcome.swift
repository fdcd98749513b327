import LanyardIdentity

/// What `TokenReader` makes of an answer.
struct TokenOutcome: Equatable {
    private let answer: TokenResponse?
    private let problem: TokenReader.ReadError?

    init(_ bytes: UnsafeRawBufferPointer) {
        do throws(TokenReader.ReadError) {
            answer = try TokenReader.read(bytes)
            problem = nil
        } catch {
            answer = nil
            problem = error
        }
    }

    var isAccepted: Bool { answer != nil }

    var isNotJSON: Bool { if case .json = problem { true } else { false } }

    /// The same in all that does not depend on how a string was escaped.
    func hasSameTokens(as other: TokenOutcome) -> Bool {
        problem == other.problem && answer?.accessToken == other.answer?.accessToken
            && answer?.refreshToken == other.answer?.refreshToken && answer?.userID == other.answer?.userID
            && answer?.deviceID == other.answer?.deviceID && answer?.hostname == other.answer?.hostname
    }

    static func == (left: TokenOutcome, right: TokenOutcome) -> Bool {
        left.hasSameTokens(as: right) && left.answer?.expiresIn == right.answer?.expiresIn
            && left.answer?.hasError == right.answer?.hasError && left.answer?.errorCode == right.answer?.errorCode
            && left.answer?.isUnknownApp == right.answer?.isUnknownApp
    }
}
