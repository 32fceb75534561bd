import { describe, expect, it } from 'vitest';
import { parse, to } from '../../src/router';

describe('parse', () => {
  it.each([
    ['', { page: 'overview' }],
    ['#', { page: 'overview' }],
    ['#/', { page: 'overview' }],
    ['#/gpu/GPU-1', { page: 'gpu', uuid: 'GPU-1' }],
    ['#/gpu', { page: 'unknown', text: '/gpu' }],
    ['#/gpu/a/b', { page: 'unknown', text: '/gpu/a/b' }],
    ['#/lease/ada/train-7', { page: 'lease', user: 'ada', id: 'train-7' }],
    ['#/lease/train-7', { page: 'lease', user: '', id: 'train-7' }],
    ['#/lease/token%3Ag/a%2Fb%20%3Cb%3E', { page: 'lease', user: 'token:g', id: 'a/b <b>' }],
    ['#/lease/%zz/x', { page: 'unknown', text: '/lease/%zz/x' }],
    ['#/events', { page: 'events', open: '' }],
    ['#/events/17', { page: 'events', open: '17' }],
    ['#/jobs/a%2Fb%20%3Cb%3E', { page: 'jobs', open: 'a/b <b>' }],
    ['#/jobs/a/b', { page: 'unknown', text: '/jobs/a/b' }],
    ['#/reports', { page: 'reports' }],
    ['#/plans/more', { page: 'unknown', text: '/plans/more' }],
    ['#/nothing', { page: 'unknown', text: '/nothing' }],
  ])('reads %s', (hash, route) => {
    expect(parse(hash).route).toEqual(route);
  });

  it('reads parameters', () => {
    const { route, params } = parse('#/events?severity=warning&text=a%26b');
    expect(route).toEqual({ page: 'events', open: '' });
    expect(params.get('text')).toBe('a&b');
  });
});

describe('to', () => {
  it.each([['ada', 'x'], ['token:g', 'a/b ?#%'], [undefined, 'lone'], ['', 'lone'], ['<b>', '<img src=x>']])('leads back to %s/%s', (user, id) => {
    expect(parse(to.lease(user, id)).route).toEqual({ page: 'lease', user: user ?? '', id });
  });

  it('leads back to a device', () => {
    expect(parse(to.gpu('a/b?c')).route).toEqual({ page: 'gpu', uuid: 'a/b?c' });
  });

  it('leads back to a row with parameters', () => {
    const { route, params } = parse(to.row('jobs', 'a/b?c#d', new URLSearchParams({ text: '<b>&' })));
    expect(route).toEqual({ page: 'jobs', open: 'a/b?c#d' });
    expect(params.get('text')).toBe('<b>&');
  });

  it('leads back to a page with parameters', () => {
    const { route, params } = parse(to.page('events', { gpu: 'G&1', text: '?' }));
    expect(route).toEqual({ page: 'events', open: '' });
    expect(Object.fromEntries(params)).toEqual({ gpu: 'G&1', text: '?' });
  });
});
