/// Arithmetic for numbers that come from outside: a result beyond the range is the end of the range. The ordinary operators end the
/// process there, so they are for own numbers alone.
///
/// `public` and inlined, as `Instant` is.
extension FixedWidthInteger {
    /// `self + other`.
    @inlinable @inline(__always)
    public func clampedSum(_ other: Self) -> Self {
        let (sum, isOverflow) = addingReportingOverflow(other)
        return isOverflow ? (other < 0 ? .min : .max) : sum
    }

    /// `self - other`.
    @inlinable @inline(__always)
    public func clampedDifference(_ other: Self) -> Self {
        let (difference, isOverflow) = subtractingReportingOverflow(other)
        // An unsigned difference leaves the range at its lower end only.
        return isOverflow ? (Self.isSigned && other < 0 ? .max : .min) : difference
    }

    /// `self * other`.
    @inlinable
    public func clampedProduct(_ other: Self) -> Self {
        let (product, isOverflow) = multipliedReportingOverflow(by: other)
        return isOverflow ? ((self < 0) != (other < 0) ? .min : .max) : product
    }
}
