import LanyardIdentity

/// What `TokenReader` makes of a response.
struct TokenOutcome: Equatable {
    private let response: TokenResponse?
    private let problem: TokenReader.ReadError?

    init(_ bytes: UnsafeRawBufferPointer) {
        do throws(TokenReader.ReadError) {
            response = try TokenReader.read(bytes)
            problem = nil
        } catch {
            response = nil
            problem = error
        }
    }

    var isAccepted: Bool { response != nil }

    var isNotJSON: Bool { if case .json = problem { true } else { false } }

    /// The same in all that does not depend on how a string was escaped.
    func hasSameTokens(as other: TokenOutcome) -> Bool {
        problem == other.problem && response?.accessToken == other.response?.accessToken
            && response?.refreshToken == other.response?.refreshToken && response?.userID == other.response?.userID
            && response?.deviceID == other.response?.deviceID && response?.hostname == other.response?.hostname
    }

    static func == (left: TokenOutcome, right: TokenOutcome) -> Bool {
        left.hasSameTokens(as: right) && left.response?.expiresIn == right.response?.expiresIn
            && left.response?.hasError == right.response?.hasError
            && left.response?.errorCode == right.response?.errorCode
            && left.response?.isUnknownApp == right.response?.isUnknownApp
    }
}
