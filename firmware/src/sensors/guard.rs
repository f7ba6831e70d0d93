//! An I2C bus on which reads of nothing but ones are errors. With a sensor gone or
//! SDA stuck high, every bit reads as 1, and many drivers turn that into a
//! believable number (an LM75 into -0.5 degC). Bound: one transaction each.

use embedded_hal::i2c::{Error, ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};

/// See the module.
#[derive(Debug)]
pub struct GuardedI2c<I> {
    i2c: I,
    /// A register that may well hold only ones, such as the result of a converter.
    free: Option<u8>,
}

impl<I> GuardedI2c<I> {
    pub fn new(i2c: I) -> Self {
        GuardedI2c { i2c, free: None }
    }

    /// Reads from `register` on are not looked at.
    pub fn except(i2c: I, register: u8) -> Self {
        let free = Some(register);
        GuardedI2c { i2c, free }
    }

    /// Gives the bus back.
    pub fn release(self) -> I {
        self.i2c
    }
}

/// The bus's own error, or a read that brought only ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardError<E> {
    Bus(E),
    AllOnes,
}

impl<E: Error> Error for GuardError<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            GuardError::Bus(error) => error.kind(),
            GuardError::AllOnes => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data),
        }
    }
}

impl<I: I2c> ErrorType for GuardedI2c<I> {
    type Error = GuardError<I::Error>;
}

/// A single 0xFF may well be an answer; two or more of nothing else are not.
fn check<E>(read_bytes: usize, ones: bool) -> Result<(), GuardError<E>> {
    if read_bytes >= 2 && ones {
        Err(GuardError::AllOnes)
    } else {
        Ok(())
    }
}

fn check_read<E>(bytes: &[u8]) -> Result<(), GuardError<E>> {
    check(bytes.len(), bytes.iter().all(|byte| *byte == 0xFF))
}

// Each method goes to its own: a bus may do better than the default of `transaction`.
impl<I: I2c> I2c for GuardedI2c<I> {
    fn read(&mut self, address: u8, read: &mut [u8]) -> Result<(), Self::Error> {
        self.i2c.read(address, read).map_err(GuardError::Bus)?;
        check_read(read)
    }

    fn write(&mut self, address: u8, write: &[u8]) -> Result<(), Self::Error> {
        self.i2c.write(address, write).map_err(GuardError::Bus)
    }

    fn write_read(
        &mut self,
        address: u8,
        write: &[u8],
        read: &mut [u8],
    ) -> Result<(), Self::Error> {
        self.i2c
            .write_read(address, write, read)
            .map_err(GuardError::Bus)?;
        if self.free.is_some() && write.first().copied() == self.free {
            return Ok(());
        }
        check_read(read)
    }

    fn transaction(
        &mut self,
        address: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), Self::Error> {
        self.i2c
            .transaction(address, operations)
            .map_err(GuardError::Bus)?;
        let mut read_bytes = 0;
        let mut ones = true;
        for operation in operations {
            if let Operation::Read(bytes) = operation {
                read_bytes += bytes.len();
                ones &= bytes.iter().all(|byte| *byte == 0xFF);
            }
        }
        check(read_bytes, ones)
    }
}
