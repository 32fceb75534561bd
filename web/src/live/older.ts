import { useEffect } from 'preact/hooks';
import { address, type Options } from '../api/client';
import { askOlder } from './loop';

// useOlder asks for the newest events that a query chooses, also from before the page was
// opened.
export function useOlder(query: Options['query']): void {
  const text = address('', query).slice(1);
  useEffect(() => void askOlder(text), [text]);
}
